package cli

// keepCommand looks after one sandbox whose agent has a single byte stream. Runtimes start such processes; nobody types
// it. It is the agent's small program, into which this one turns.
type keepCommand struct {
	Config string `arg:"" help:"What to do, as JSON."`
}

// Run implements the command.
func (k *keepCommand) Run(c *console) error {
	return c.machine.Keep(k.Config)
}
