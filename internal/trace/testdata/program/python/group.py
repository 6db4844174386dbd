def fails(e):
    raise e


errors = []
for e in (ValueError("first"), ExceptionGroup("nested", [TypeError("second")])):
    try:
        fails(e)
    except Exception as caught:
        caught.add_note("a note")
        errors.append(caught)
raise ExceptionGroup("several", errors)
