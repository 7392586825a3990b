"""The experiments of the paper: tables as data, a runner that can be resumed, Markdown."""
