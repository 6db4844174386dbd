package wire

// FeatureRelay means that an agent supports OpRelay, OpAccept, OpConnect and OpPorts.
const FeatureRelay = "relay"

// Addresses and ports that an agent binds inside its sandbox while it has, or had, a relay. OpConnect reaches no program at
// these addresses.
const (
	ResolverPort = 53   // of ResolverAddr, UDP and TCP
	FrontPort    = 1080 // of ResolverAddr: HTTP CONNECT and SOCKS5
	ResolverAddr = "127.0.0.53"
	FirstName    = "127.64.0.2" // the address of the first name; the others follow
)

// Limits of an agent's relay.
const (
	MaxCarried = 1024 // connections, waiting or carried; others wait to be accepted
	MaxNames   = 256  // names with an address, for the life of the agent
	MaxAsked   = 64   // names that wait for an answer; others fail
)

// MuxCarried is the number of connections that a host carries over a multiplexer at the same time, so that streams are left
// for other requests.
const MuxCarried = MaxMuxStreams - 64

// MaxListeners limits the answer to OpPorts.
const MaxListeners = 256

// Listener is an entry of OpPorts: a TCP port that OpConnect reaches. The program chooses its own name.
type Listener struct {
	Port    uint16 `json:"port"`
	Address string `json:"address"`           // 127.0.0.1, 0.0.0.0, ::1 or ::
	Pid     int    `json:"pid,omitempty"`     // 0 if the agent cannot see it
	Program string `json:"program,omitempty"` // at most 15 bytes of its name
}

// Relay is the configuration of a relay.
type Relay struct {
	Ports []uint16 `json:"ports,omitempty"` // ports on which the agent listens, at the address of each name
}

// Ask is a question to the host: for a name if Open is nil, else for a connection.
type Ask struct {
	ID   uint64 `json:"id"` // never used twice by an agent
	Name string `json:"name,omitempty"`
	Open *Open  `json:"open,omitempty"`
}

// Open is a connection of a program. Names are in lower case and without a final dot. The host must check them: it cannot
// trust an agent.
type Open struct {
	Host string `json:"host"` // a name; through the front also an IP address
	Port uint16 `json:"port"`
	Via  Via    `json:"via"`
}

// Via is how a program connects.
type Via string

// Values of Via.
const (
	ViaAddress Via = "address" // to the address of a name
	ViaConnect Via = "connect" // by HTTP CONNECT
	ViaSocks   Via = "socks"   // by SOCKS5
)

// DNSFailed is the reason for a name that has no address. Unless Missing is set, the failure may be temporary.
const DNSFailed = "dns_failed"

// Answer is the host's answer to an [Ask]. OpAccept answers an allowed connection.
type Answer struct {
	ID uint64 `json:"id"`
	// OK means that a program may have an address for the name; of a connection, that it is allowed but could not be made.
	OK      bool   `json:"ok,omitempty"`
	Reason  string `json:"reason,omitempty"`  // the reason of a refusal, for people and programs
	Missing bool   `json:"missing,omitempty"` // the name does not exist
}
