package mcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/belljar/belljar"
)

// firstModern is the first version of the protocol without sessions: each request says who sends it.
const firstModern = "2026-07-28"

// modern reports whether a request is of the protocol without sessions.
func modern(r *http.Request, list []message) bool {
	return r.Header.Get("Mcp-Protocol-Version") >= firstModern ||
		len(list) == 1 && (list[0].Method == "server/discover" || strings.Contains(string(list[0].Params), "io.modelcontextprotocol/protocolVersion"))
}

// resident returns the visit of a user whose client speaks the protocol without sessions. All such clients of one user with
// one URL share it: there is nothing else to tell them apart by.
func (d *Door) resident(r *http.Request, caller belljar.Caller) (*guest, error) {
	d.reviving.Lock()
	defer d.reviving.Unlock()
	name := strings.Join([]string{"", string(caller.Role), caller.ID, r.URL.RawQuery}, "\x00") // as no header can be
	d.mu.Lock()
	g := d.guests[name]
	d.mu.Unlock()
	if g != nil {
		return g, nil
	}
	return d.begin(r, caller, pass{User: caller.ID, Agent: d.agentOf(name), Query: r.URL.RawQuery, Boot: d.boot}, name)
}

// agentOf makes an id of a visit's name, the same after a restart.
func (d *Door) agentOf(name string) string {
	sum := hmac.New(sha256.New, d.opts.Secret)
	sum.Write([]byte("resident\x00" + name))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
