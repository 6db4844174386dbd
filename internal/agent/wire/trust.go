package wire

// OpTrust makes the programs of the sandbox trust one more authority: the agent writes [TrustBundle] and [TrustStore] to
// [TrustDir], next to the folder of secrets.
const OpTrust Op = "trust"

// Files of OpTrust, readable by every user: the authorities that the image trusts, and the one of the request.
const (
	TrustDir    = "belljar"
	TrustBundle = "ca.pem" // certificates as PEM
	TrustStore  = "ca.jks" // the same as a key store of Java, in its first format
)
