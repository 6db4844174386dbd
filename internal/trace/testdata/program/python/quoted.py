exec("def g():\n  return undefined_name\ng()")
