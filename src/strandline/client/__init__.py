"""A store that is served elsewhere, with the verbs and types of an open one."""
