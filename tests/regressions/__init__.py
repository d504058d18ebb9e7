"""Public reports about other projects, re-created as tests of this one."""
