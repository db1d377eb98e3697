"""The rules: values, keys, edges; their evaluation over a change set; setting bad rows aside."""
