"""Training with a server that may stay away: nothing is lost, and the same command goes on.

Trouble comes at one of two moments. While rollouts are played the policy stands after a whole
step; its state is saved as it is. At the end of a step, where the next policy is published and
evaluated, the step is finished, logged and saved in the usual way, and the evaluation is made up
for when the run goes on.
"""

from __future__ import annotations

from typing import Any

from training.patience import ServedError
from training.runs import Run, is_whole
from training.validation import Validator


class ServedValidator(Validator):
    """Publishes every policy before it is evaluated, and stops in good order where that fails.

    stopped: why training was stopped at the end of a step.
    """

    stopped: ServedError | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The policy of the checkpoint is the first to be published."""
        self.trainer.publish()
        super().on_train_begin(args, state, control, **kwargs)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Publish and evaluate; else save and stop."""
        try:
            self.trainer.publish()
            super().on_step_end(args, state, control, **kwargs)
        except ServedError as error:
            self.stopped = error
            control.should_save = control.should_training_stop = True


def train_served(run: Run, validator: ServedValidator, checkpoint: str | None) -> None:
    """Every update from a checkpoint on.

    Raises:
        ServedError: the server stayed away or plays something else; says what was kept.
    """
    trainer = validator.trainer
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except ServedError as error:
        _keep(run, validator)
        raise _stopped(run, error, trainer.state.global_step) from None
    finally:
        trainer.sync.check = None  # it holds the model
    if validator.stopped is not None:
        raise _stopped(run, validator.stopped, trainer.state.global_step)


def _keep(run: Run, validator: ServedValidator) -> None:
    """The state after the last whole step, unless there is no step or it has been saved."""
    trainer = validator.trainer
    step = trainer.state.global_step
    folder = run.checkpoints / f"checkpoint-{step}"
    if step and not is_whole(folder):
        trainer._save_checkpoint(trainer.model, None)
        if run.writes:
            validator.player.settings.write(folder)


def _stopped(run: Run, error: ServedError, step: int) -> ServedError:
    kept = f"the state after step {step} is kept" if step else "no step had been taken"
    return ServedError(f"{error}. Stopped, {kept}: the same command goes on in {run.folder}")
