package metric

import (
	"slices"
	"sync"

	"github.com/belljar/belljar"
)

// other replaces every value outside the vocabulary.
const other = "other"

// vocabulary lists the values that a label may have.
type vocabulary []string

// or returns word if it is in the vocabulary, absent if word is empty, else other.
func (v vocabulary) or(word, absent string) string {
	switch {
	case word == "":
		return absent
	case slices.Contains(v, word):
		return word
	}
	return other
}

func components() vocabulary {
	return vocabulary{"ws", "sse", "http", "service", orchestrator, "queue", "log", "rest", "stream"}
}

func queueReasons() vocabulary {
	return vocabulary{"queue_full", "queue_ttl_expired", "node_memory", "requests_too_large"}
}

func cutReasons() vocabulary {
	return vocabulary{"log_cap", "log_quota", "disk_full", "log_failed", "log_damaged"}
}

func workspaceModes() vocabulary { return vocabulary{"sandbox", "local", "remote"} }

func warmResults() vocabulary { return vocabulary{"hit", "miss"} }

func dropReasons() vocabulary {
	return vocabulary{"drop_oldest", "slow", "silent"}
}

func uploadKinds() vocabulary {
	return vocabulary{
		string(belljar.UploadFile), string(belljar.UploadTar), string(belljar.UploadTarGz), string(belljar.UploadZip),
		"inline", "mixed", "files",
	}
}

func authReasons() vocabulary {
	return vocabulary{
		"missing", "malformed", "conflict", "unknown_key", "invalid_token", "expired_token", "rate_limited", "unavailable",
		"wrong_code", "forged_login", "ended_login", "expired_login", // of sign-ins
		"forged", "changed", "expired", "foreign", "unknown", "revoked", // of the tokens in a stream's URL
		string(belljar.CodeUnauthorized), // of previews
	}
}

func decisions() vocabulary { return vocabulary{"allowed", "denied"} }

func waiters() vocabulary { return vocabulary{"run", "session"} }

func hookResults() vocabulary { return vocabulary{"delivered", "failed", "dropped"} }

func directions() vocabulary { return vocabulary{"in", "out"} }

func egressReasons() vocabulary {
	return vocabulary{
		"no_match", "dns_mismatch", "policy_changed", "sni_missing", "private_address", "port_denied", "dns_failed", "brokered", "limit", "unreachable",
		"certificate_unknown", "certificate_expired", "certificate_name", "certificate_invalid",
	}
}

func methods() vocabulary {
	return vocabulary{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"}
}

func reasons() vocabulary {
	return vocabulary{
		string(belljar.ReasonStartupTimeout), string(belljar.ReasonExecutionTimeout), string(belljar.ReasonCPUTimeExceeded), string(belljar.ReasonOOMKilled),
		string(belljar.ReasonPidsLimit), string(belljar.ReasonExecFailed), string(belljar.ReasonCompileFailed), string(belljar.ReasonProvisionFailed),
		string(belljar.ReasonImagePullFailed), string(belljar.ReasonPolicyDenied), string(belljar.ReasonCanceledByUser),
		string(belljar.ReasonNonZeroExit), string(belljar.ReasonSignaled), string(belljar.ReasonQueueTTLExpired), string(belljar.ReasonApprovalExpired),
		string(belljar.ReasonSandboxDied), string(belljar.ReasonKillFailed), string(belljar.ReasonNodeLost),
		string(belljar.ReasonSessionExpired), string(belljar.ReasonNodeOutOfMemory),
		string(belljar.ReasonCloneFailed), string(belljar.ReasonPatchFailed),
	}
}

// sessionEnds are the states that a session ends in.
func sessionEnds() vocabulary {
	return vocabulary{
		string(belljar.SessionClosed), string(belljar.SessionExpired), string(belljar.SessionCrashed), string(belljar.SessionLost),
	}
}

func terminalEnds() vocabulary {
	return vocabulary{string(belljar.TerminalExit), string(belljar.TerminalClosed)}
}

func contextLanguages() vocabulary { return vocabulary{"python", "ipython", "javascript", "bash"} }

func contextEnds() vocabulary { return vocabulary{"deleted", "restarted"} }

func codes() vocabulary {
	var all vocabulary
	for _, row := range belljar.Table() {
		all = append(all, string(row.Code))
	}
	return all
}

func phases() []belljar.Phase {
	return []belljar.Phase{belljar.PhaseQueued, belljar.PhaseStarting, belljar.PhaseRunning}
}

// statusOf returns a status of three digits, or other.
func statusOf(s string) string {
	if len(s) == 3 && s[0] >= '1' && s[0] <= '5' && s[1] >= '0' && s[1] <= '9' && s[2] >= '0' && s[2] <= '9' {
		return s
	}
	return other
}

// maxRoutes is the largest number of distinct routes. The APIs have fewer; the bound guards against a route name with
// variable parts.
const maxRoutes = 512

// routes holds the routes seen so far.
type routes struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newRoutes() *routes { return &routes{seen: map[string]bool{}} }

func (r *routes) known(route string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[route] {
		if len(r.seen) >= maxRoutes {
			return other
		}
		r.seen[route] = true
	}
	return route
}

// maxTracked is the largest number of runs and sessions tracked at the same time. Further ones are counted, but not in gauges.
const maxTracked = 1 << 16

// tracker holds the state of every active run and session, so that each gauge decreases by what it increased.
type tracker struct {
	mu   sync.Mutex
	at   map[string]string
	most int
}

func newTracker() *tracker { return &tracker{at: map[string]string{}, most: maxTracked} }

// add starts to track id. It returns false if id is already tracked or there is no room.
func (l *tracker) add(id, place string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.at[id]; ok || len(l.at) >= l.most {
		return false
	}
	l.at[id] = place
	return true
}

// move sets the state of id and returns the earlier one, "" for a new id. followed is false if there is no room for it.
func (l *tracker) move(id, place string) (was string, followed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.at[id]
	if !ok && len(l.at) >= l.most {
		return "", false
	}
	l.at[id] = place
	return was, true
}

// drop stops tracking id.
func (l *tracker) drop(id string) (was string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok = l.at[id]
	delete(l.at, id)
	return was, ok
}
