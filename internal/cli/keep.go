package cli

// keepCommand runs the keep of one sandbox. Runtimes start it; users do not. It replaces itself with the agent's small program.
type keepCommand struct {
	Config string `arg:"" help:"What to do, as JSON."`
}

// Run implements the command.
func (k *keepCommand) Run(c *console) error {
	return c.machine.Keep(k.Config)
}
