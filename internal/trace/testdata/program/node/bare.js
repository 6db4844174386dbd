const e = new RangeError("bare"); e.stack = undefined; e.code = 3; throw e
