package belljar

// Role is what a caller may do beyond their own runs and sessions.
type Role string

// The roles.
const (
	RoleUser  Role = "user"
	RoleAdmin Role = "admin" // sees all users' runs and sessions, may waive protections
)

// Caller identifies the user who sends a request, and where it came from. The zero value is an anonymous caller.
type Caller struct {
	ID   string // user id
	Role Role

	// These fields are for the audit trail and the log. Only the rules of SANDBOX_APPROVAL depend on one of them,
	// Source.
	Source    string // IDE, MCP, Web, cli, rest … (the audit trail's source; header X-Belljar-Source)
	Model     string // header X-Belljar-Model
	ContextID string // header X-Belljar-Context-Id
	Address   string // the client's IP address, without the port
	RequestID string
	TraceID   string // from the W3C traceparent
}

// Admin reports whether the caller is an operator.
func (c Caller) Admin() bool { return c.Role == RoleAdmin }

// Sees reports whether the caller may see objects of this owner.
func (c Caller) Sees(owner string) bool { return c.Admin() || c.ID == owner }
