"""Training with a server that may stay away: nothing is lost, and the same command goes on.

Trouble comes at one of two moments. While rollouts are played the policy stands after a whole
step; its state is saved as it is. At the end of a step, where the next policy is published and
evaluated, the step is finished, logged and saved in the usual way, and the evaluation is made up
for when the run goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from training.patience import ServedError
from training.runs import Run, is_whole, last_checkpoint
from training.validation import Validator

_UNWRITTEN = (OSError, RuntimeError, SafetensorError)  # what a full disk raises, by who writes


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
        ServedError: the server stayed away or plays something else, or an adapter found no room;
            says what was kept.
    """
    trainer = validator.trainer
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
    except ServedError as error:
        raise _stopped(run, error, _kept(run, validator)) from None
    except _UNWRITTEN as failure:
        if validator.stopped is None:
            raise
        raise _stopped(run, validator.stopped, failure) from None
    finally:
        trainer.sync.check = None  # it holds the model
    if validator.stopped is not None:
        raise _stopped(run, validator.stopped)


def _kept(run: Run, validator: ServedValidator) -> Exception | None:
    """Saves the state after the last whole step, if there is one that is not saved; or why not."""
    trainer = validator.trainer
    folder = run.checkpoints / f"checkpoint-{trainer.state.global_step}"
    if not trainer.state.global_step or is_whole(folder):
        return None
    try:
        trainer._save_checkpoint(trainer.model, None)
        if run.writes:
            validator.player.settings.write(folder)
    except _UNWRITTEN as failure:
        return failure
    return None


def _stopped(run: Run, error: ServedError, unsaved: Exception | None = None) -> ServedError:
    """The error with what is kept. unsaved: why the state of the last step could not be saved."""
    last = last_checkpoint(run.checkpoints)
    kept = f"the state after step {Path(last).name.split('-')[1]} is kept" if last else ""
    if unsaved is not None:
        lost = f"the last step could not be saved ({unsaved})"
        kept = f"{lost}, {kept or 'no step is kept'}"
    kept = kept or "no step had been taken"
    return ServedError(f"{error}. Stopped, {kept}: the same command goes on in {run.folder}")
