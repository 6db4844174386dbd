package metric

import (
	"slices"
	"sync"

	"github.com/belljar/belljar"
)

// other stands for every value that is not known beforehand.
const other = "other"

// vocabulary is the values that a label may have.
type vocabulary []string

// or is word if it is known, absent if there is none, else other.
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

func queueReasons() vocabulary { return vocabulary{"queue_full", "queue_ttl_expired", "user_limit"} }

func cutReasons() vocabulary {
	return vocabulary{"log_cap", string(belljar.ReasonLogCap), "log_quota", "disk_full"}
}

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
		"forged", "changed", "expired", "foreign", "unknown", // of tokens in a stream's address
	}
}

func methods() vocabulary {
	return vocabulary{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"}
}

func reasons() vocabulary {
	return vocabulary{
		string(belljar.ReasonStartupTimeout), string(belljar.ReasonExecutionTimeout), string(belljar.ReasonCPUTimeExceeded), string(belljar.ReasonOOMKilled),
		string(belljar.ReasonPidsLimit), string(belljar.ReasonExecFailed), string(belljar.ReasonProvisionFailed),
		string(belljar.ReasonImagePullFailed), string(belljar.ReasonPolicyDenied), string(belljar.ReasonCanceledByUser),
		string(belljar.ReasonNonZeroExit), string(belljar.ReasonSignaled), string(belljar.ReasonQueueTTLExpired),
		string(belljar.ReasonSandboxDied), string(belljar.ReasonKillFailed), string(belljar.ReasonNodeLost),
		string(belljar.ReasonSessionExpired), string(belljar.ReasonNodeOutOfMemory),
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

// statusOf is a status of three digits, or other.
func statusOf(s string) string {
	if len(s) == 3 && s[0] >= '1' && s[0] <= '5' && s[1] >= '0' && s[1] <= '9' && s[2] >= '0' && s[2] <= '9' {
		return s
	}
	return other
}

// mostRoutes is how many routes are distinguished. Doors have fewer; the bound is for a door that names its routes badly.
const mostRoutes = 512

// routes are the routes seen so far.
type routes struct {
	mu   sync.Mutex
	seen map[string]bool
}

func newRoutes() *routes { return &routes{seen: map[string]bool{}} }

func (r *routes) known(route string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen[route] {
		if len(r.seen) >= mostRoutes {
			return other
		}
		r.seen[route] = true
	}
	return route
}

// mostLive is how many runs and sessions are followed at once. What comes on top is counted, but in no gauge.
const mostLive = 1 << 16

// live is where every run and session under way stands, so that gauges go down by what they went up.
type live struct {
	mu   sync.Mutex
	at   map[string]string
	most int
}

func newLive() *live { return &live{at: map[string]string{}, most: mostLive} }

// add puts id on the list; false if it was there.
func (l *live) add(id, place string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.at[id]; ok || len(l.at) >= l.most {
		return false
	}
	l.at[id] = place
	return true
}

// move puts id in place, and returns where it was: "" for one that was not on the list. followed is false for one that
// there is no room for.
func (l *live) move(id, place string) (was string, followed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok := l.at[id]
	if !ok && len(l.at) >= l.most {
		return "", false
	}
	l.at[id] = place
	return was, true
}

// drop takes id off the list.
func (l *live) drop(id string) (was string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, ok = l.at[id]
	delete(l.at, id)
	return was, ok
}
