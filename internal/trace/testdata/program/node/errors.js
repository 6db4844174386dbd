const one = new Error("one");
class Two extends Error {}
throw new AggregateError([one, new Two("two")], "both");
