package mcp

// Narrowed is what the URL of a client makes of the server's terms.
func (t Terms) Narrowed(query string) (Terms, error) { return t.narrowed(query) }
