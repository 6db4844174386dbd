package egress

import "github.com/belljar/belljar/internal/agent/wire"

// Reason is the reason of a denial; "" if there was none. Audit events and reports contain these
// values.
type Reason string

// The reasons.
const (
	NoMatch        Reason = "no_match"        // no rule of the run, or none of the server, covers the host
	DNSMismatch    Reason = "dns_mismatch"    // the program requests another name than the one that it connected to
	PolicyChanged  Reason = "policy_changed"  // the rules were narrowed while the connection was open
	SNIMissing     Reason = "sni_missing"     // port 443 without a TLS ClientHello that names the host
	PrivateAddress Reason = "private_address" // an address that is not public
	PortDenied     Reason = "port_denied"     // not one of the server's ports
	DNSFailed      Reason = wire.DNSFailed    // the name has no address, or the resolver did not answer
	Brokered       Reason = "brokered"        // the host has a brokered secret, and the program does not speak HTTP/1.1 over TLS that it trusts
	// The certificate of a host with a brokered secret is not valid, and the request was not sent.
	CertificateUnknown Reason = "certificate_unknown" // no authority that the server trusts has signed it
	CertificateExpired Reason = "certificate_expired" // or is not valid yet
	CertificateName    Reason = "certificate_name"    // it is for other names
	CertificateInvalid Reason = "certificate_invalid" // any other error
	Limit              Reason = "limit"               // too many connections, names or bytes
)

// Unreachable is not a denial: the policy allows the connection, but the dial failed.
const Unreachable Reason = "unreachable"
