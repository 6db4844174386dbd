package service

// Caller is who asks. The zero value is an anonymous stranger.
type Caller struct {
	// ID names the caller. A run can be seen by the caller that started it, and by operators.
	ID string
	// Operator may see every run and waive protections.
	Operator bool
}

// Local is the person at this machine's command line.
func Local() Caller { return Caller{ID: "local", Operator: true} }

func (c Caller) sees(owner string) bool { return c.Operator || c.ID == owner }
