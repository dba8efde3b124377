"""What ``ctfa COMMAND`` does: one file per command, ``run(options)``; its options in `_options`."""
