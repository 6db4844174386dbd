e = RuntimeError("one\ntwo: three")
e.add_note("seen by the reader")
raise e
