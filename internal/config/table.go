package config

import "time"

// row is a key and the field for its value.
type row struct {
	name   string // without Prefix
	value  value
	unit   string
	def    string // as the operator would write it; "" leaves the zero value
	doc    string
	group  string
	secret bool
	hash   bool
	alias  string // another program's environment variable for it, without any prefix
}

func (r row) key() Key {
	return Key{
		Name: Prefix + r.name, Group: r.group, Type: r.value.kind, Unit: r.unit, Range: r.value.bound, Default: r.def,
		Doc: r.doc, Secret: r.secret, Hash: r.hash,
	}
}

// table returns every key, bound to the fields of c.
func table(c *Config) []row {
	all := make([]row, 0, 200) // room for all keys
	for _, g := range []struct {
		name string
		rows []row
	}{
		{"Server", server(c)}, {"Authentication", identity(c)}, {"Execution", execution(c)}, {"Network", network(c)}, {"Approvals", approvals(c)}, {"The docker runtime", docker(c)}, {"The gvisor runtime", gvisor(c)}, {"Images", images(c)}, {"Limits of a run", limits(c)},
		{"Interactive input", interactive(c)}, {"Memory of the node", node(c)}, {"Sessions, queue and quotas", capacity(c)}, {"Threads", threads(c)}, {"Workspaces", workspaces(c)}, {"Models", models(c)}, {"Streams", streams(c)},
		{"Storage", memory(c)}, {"Workspaces elsewhere", elsewhere(c)},
	} {
		for _, r := range g.rows {
			r.group = g.name
			all = append(all, r)
		}
	}
	return all
}

func server(c *Config) []row {
	return []row{
		{name: "LISTEN", value: text(&c.Listen, checkListen), def: "127.0.0.1:8080",
			doc: "Address to listen on: host:port, or unix:/path. Requests need a key or a token at every address, loopback too."},
		{name: "DATA", value: text(&c.Data),
			doc: "Folder of this installation: records, logs, artifacts, secrets. Default: /var/lib/belljar for root, else belljar below $XDG_DATA_HOME or ~/.local/share."},
		{name: "TLS_CERT", value: text(&c.TLSCert), doc: "PEM file with the certificate chain to serve HTTPS with. Needs SANDBOX_TLS_KEY, and no socket in SANDBOX_LISTEN."},
		{name: "TLS_KEY", value: text(&c.TLSKey), doc: "PEM file with the private key of SANDBOX_TLS_CERT."},
		{name: "PUBLIC_URL", value: text(&c.PublicURL, checkURL),
			doc: "Address under which clients reach the server, for URLs in answers, if it differs from the one in their requests: https://host[/path]."},
		{name: "TRUSTED_PROXIES", value: networks(&c.TrustedProxies), def: "[]",
			doc: "Networks of the reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers are trusted."},
		{name: "ALLOWED_ORIGINS", value: list(&c.AllowedOrigins, checkOrigin), def: "[]",
			doc: "Origins of web pages that may call from a browser: scheme://host[:port], or * for all (without credentials)."},
		{name: "PREVIEW_DOMAIN", value: text(&c.PreviewDomain, checkPreviewDomain),
			doc: "Domain below which each preview has a host name of its own, with :port if clients need one: preview.example.net. It needs a wildcard DNS record and certificate, and a registrable domain other than that of SANDBOX_PUBLIC_URL. If unset, there are no previews."},
		{name: "PREVIEW_PUBLIC", value: boolean(&c.PreviewPublic), def: "false", doc: "Allow previews that need no token."},
		{name: "WEBUI", value: boolean(&c.WebUI), def: "true", doc: "Serve the web page at /webui/ (docs/webui.md)."},
		{name: "METRICS_OPEN", value: boolean(&c.MetricsOpen), def: "false", doc: "Serve /metrics without authentication."},
	}
}

func identity(c *Config) []row {
	return []row{
		{name: "API_KEY", value: text(&c.APIKey, checkSecret), secret: true,
			doc: "The operator's API key. If unset, the first start makes one and keeps it in the data folder. `belljar token create` makes keys for users."},
		{name: "JWT_SECRET", value: text(&c.JWTSecret, checkLongSecret), secret: true,
			doc: "Key of JWTs signed with HS256, at least 32 bytes. If unset, such tokens are refused. A token needs sub and exp."},
		{name: "OIDC_ISSUER", value: text(&c.OIDCIssuer, checkIssuer),
			doc: "Issuer of an OpenID provider whose JWTs (RS256, ES256) are accepted. Its keys are discovered. Needs SANDBOX_OIDC_AUDIENCE."},
		{name: "OIDC_AUDIENCE", value: text(&c.OIDCAudience), doc: "Audience that JWTs of SANDBOX_OIDC_ISSUER must have."},
	}
}

func execution(c *Config) []row {
	return []row{
		{name: "ENABLE_EXECUTION", value: boolean(&c.EnableExecution), def: "true", hash: true,
			doc: "Run programs. If false, the server answers queries and refuses new runs, sessions, contexts and terminals. What an earlier server started in sessions continues."},
		{name: "BACKGROUND_EXECUTION", value: boolean(&c.BackgroundExecution), def: "true", hash: true,
			doc: "Answer POST /runs before the run has ended. If false, a request without wait also waits for the end, except for interactive runs."},
		{name: "DEFAULT_RUNTIME", value: oneOf(&c.DefaultRuntime, "native", "docker", "gvisor", "firecracker"), def: "native", hash: true,
			doc: "Runtime of requests that name none. The server does not start if this host cannot provide it, and never substitutes another. Belljar has no runtime firecracker: the name is reserved for clients of the sandbox API, and the server does not start with it."},
		{name: "RUNTIMES", value: list(&c.Runtimes, checkRuntime), def: "native,gvisor,docker",
			doc: "Runtimes that requests may name, and from which an isolation class or a trust level selects. SANDBOX_DEFAULT_RUNTIME must be one of them. One that this host cannot provide is listed with the reason, and refused. The sandboxes of one that is taken out end at the next start if it answers within 30 s, else when their leases are over."},
		{name: "DEFAULT_TRUST_LEVEL", value: oneOf(&c.DefaultTrustLevel, "", "trusted", "standard", "untrusted"), def: "",
			doc: "Trust level of requests that set none, and the highest that users who are not operators may claim: none of their programs runs in a weaker isolation. The server does not start if no runtime of SANDBOX_RUNTIMES has that. If unset, such requests get the default runtime. Enters the policy hash when set."},
		{name: "TRUST_LEVELS", value: pairs(&c.TrustLevels, checkTrust), def: "trusted=namespace,standard=namespace,untrusted=user_space_kernel",
			doc: "The weakest isolation of each trust level: namespace, user_space_kernel or microvm. Levels that are left out keep their default. Enters the policy hash when it is not the default."},
		{name: "DEFAULT_IMAGE", value: text(&c.DefaultImage, checkImage), def: "host",
			doc: "Image of a session that is opened by scope, or created over the shell API, without an image, and of the sessions of the thread API."},
		{name: "ALLOW_WEAK", value: list(&c.AllowWeak, checkWord), def: "[]",
			doc: "Protections that may be missing on this host, by the names that `belljar doctor` prints. Without this, the server does not start if one is missing. With it, requests run on the defaults; a request for a limit that is missing here is refused, unless an operator sends it with allow_weak. Enters the policy hash when not empty."},
		{name: "NATIVE_PTYS", value: boolean(&c.NativePTYs), def: "true",
			doc: "Programs of native sandboxes can make pseudo-terminals, as tmux, script and pexpect do. The kernel processes what they write to them outside all limits of CPU time, so that a program with a tenth of a processor can keep all processors of the host busy. If false, they have the terminals and shells of Belljar only. That needs a user id of its own for programs: root, or subordinate ids."},
		{name: "SUPPORTED_SPEC_VERSIONS", value: list(&c.SupportedSpecVersions, checkSpec), def: "1.0,1.1", hash: true,
			doc: "Values of spec_version that clients may name: 1.0, 1.1. The command line, the SDKs and the web page name 1.1."},
	}
}

func limits(c *Config) []row {
	const ifChanged = " Enters the policy hash when it is not the default."
	const unlessSet = " Requests may set less, and more only if this is unset, up to "
	return []row{
		{name: "DEFAULT_CPU", value: number(&c.DefaultCPU, 0.01, 1024), unit: "cores", def: "1", doc: "Processors of a run that sets none." + ifChanged},
		{name: "DEFAULT_MEM_MB", value: integer(&c.DefaultMemMB, 8, 16<<20), unit: "MiB", def: "512", doc: "Memory of a run that sets none." + ifChanged},
		{name: "MAX_CPU", value: number(&c.MaxCPU, 0.01, 1024), unit: "cores", def: "4", hash: true, doc: "Most processors that a run can request."},
		{name: "MAX_MEM_MB", value: integer(&c.MaxMemMB, 8, 16<<20), unit: "MiB", def: "8192", hash: true, doc: "Most memory that a run can request."},
		{name: "PIDS_LIMIT", value: integer(&c.PidsLimit, 1, 1<<22), unit: "processes", def: "256", hash: true,
			doc: "Processes and threads of a sandbox." + unlessSet + "4096."},
		{name: "ULIMIT_NOFILE", value: integer(&c.UlimitNoFile, 16, 1<<20), unit: "descriptors", def: "1024", hash: true,
			doc: "Open files of a process." + unlessSet + "65536."},
		{name: "ULIMIT_NPROC", value: integer(&c.UlimitNProc, 1, 1<<22), unit: "processes", def: "256", hash: true,
			doc: "RLIMIT_NPROC. If unset, it follows PIDS_LIMIT." + unlessSet + "4096, or PIDS_LIMIT if that is more."},
		{name: "WORKSPACE_CAP_MB", value: integer(&c.WorkspaceCapMB, 1, 16<<20), unit: "MiB", def: "256", hash: true,
			doc: "Size of /workspace. It is in memory." + unlessSet + "4096."},
		{name: "TMP_MB", value: integer(&c.TmpMB, 1, 16<<20), unit: "MiB", def: "64", doc: "Size of /tmp. It is in memory." + ifChanged},
		{name: "MAX_LOG_BYTES", value: integer(&c.MaxLogBytes, 1, 1<<40), unit: "bytes", def: "10485760", hash: true,
			doc: "Output of a run that is kept; more is counted and dropped." + unlessSet + "104857600."},
		{name: "MAX_ARTIFACT_BYTES_PER_RUN_MB", value: integer(&c.MaxArtifactRunMB, 1, 16<<20), unit: "MiB", def: "32", hash: true,
			doc: "Captured artifacts of a run, together." + unlessSet + "1024."},
		{name: "MAX_UPLOAD_MB", value: integer(&c.MaxUploadMB, 1, 16<<20), unit: "MiB", def: "64", hash: true, doc: "Size of one upload, packed and unpacked."},
		{name: "MAX_UPLOAD_FILES", value: integer(&c.MaxUploadFiles, 1, 1<<20), unit: "files", def: "1000", doc: "Files of one upload." + ifChanged},
		{name: "MAX_UPLOAD_DEPTH", value: integer(&c.MaxUploadDepth, 1, 256), unit: "folders", def: "10", doc: "Folders above a file of an upload." + ifChanged},
		{name: "DEFAULT_STARTUP_TIMEOUT_SEC", value: span(&c.StartupTimeout, time.Second, 0.001, 86400), unit: "seconds", def: "20", hash: true,
			doc: "Time to make a sandbox, if a request sets none."},
		{name: "MAX_STARTUP_TIMEOUT_SEC", value: span(&c.MaxStartupTimeout, time.Second, 0.001, 86400), unit: "seconds", def: "600",
			doc: "Most time that a request can set for it."},
		{name: "DEFAULT_EXEC_TIMEOUT_SEC", value: span(&c.ExecTimeout, time.Second, 0.001, 31536000), unit: "seconds", def: "60", hash: true,
			doc: "Time of a command, if a request sets none."},
		{name: "MAX_EXEC_TIMEOUT_SEC", value: span(&c.MaxExecTimeout, time.Second, 0.001, 31536000), unit: "seconds", def: "86400",
			doc: "Most time that a request can set for it."},
		{name: "DEFAULT_BUILD_TIMEOUT_SEC", value: span(&c.BuildTimeout, time.Second, 0.001, 31536000), unit: "seconds", def: "60",
			doc: "Time of a compiler before a command, if a request sets none; SANDBOX_MAX_EXEC_TIMEOUT_SEC is the most."},
		{name: "DEFAULT_CPU_TIME_SEC", value: orNone(&c.CPUTime, span(&c.CPUTime, time.Second, 0.01, 31536000)), unit: "seconds", def: "0",
			doc: "CPU time of a command and all its processes, if a request sets none; 0 is no limit. Does not apply to shell commands and terminals." + ifChanged},
		{name: "MAX_CPU_TIME_SEC", value: span(&c.MaxCPUTime, time.Second, 0.01, 31536000), unit: "seconds", def: "86400",
			doc: "Most CPU time that a request can set."},
		{name: "CANCEL_GRACE_SECONDS", value: span(&c.CancelGrace, time.Second, 0.001, 600), unit: "seconds", def: "5", hash: true,
			doc: "Time between TERM and KILL when a run is canceled or times out."},
	}
}

func interactive(c *Config) []row {
	return []row{
		{name: "INTERACTIVE_MAX_FRAME_BYTES", value: integer(&c.InteractiveFrame, 1, 64<<10), unit: "bytes", def: "65536",
			doc: "Input in one frame, unless a run sets stdin_max_frame_bytes."},
		{name: "INTERACTIVE_MAX_BYTES", value: integer(&c.InteractiveBytes, 1, 1<<40), unit: "bytes", def: "1048576",
			doc: "Input of a run, unless it sets stdin_max_bytes."},
		{name: "INTERACTIVE_INPUT_BPS", value: integer(&c.InteractiveBPS, 1, 1<<40), unit: "bytes a second", def: "1048576",
			doc: "Rate of a run's input, unless it sets stdin_bps."},
		{name: "INTERACTIVE_IDLE_TIMEOUT_SEC", value: span(&c.InteractiveIdleTime, time.Second, 0.001, 86400), unit: "seconds", def: "30",
			doc: "Time without input after which the input is closed, unless a run sets stdin_idle_timeout_sec."},
	}
}

func capacity(c *Config) []row {
	return []row{
		{name: "MAX_CONCURRENT_RUNS", value: integer(&c.MaxConcurrentRuns, 1, 100000), unit: "runs", def: "8", doc: "Concurrent runs on this node. More wait in the queue."},
		{name: "QUEUE_MAX_LENGTH", value: integer(&c.QueueMaxLength, 0, 1000000), unit: "runs", def: "100", doc: "Waiting runs. More are refused with 429 and Retry-After. While a user has several, one of each user without any still waits, up to twice as many in all."},
		{name: "QUEUE_TTL_SEC", value: span(&c.QueueTTL, time.Second, 0.001, 86400), unit: "seconds", def: "120", doc: "Time that a run may wait; then it fails with queue_ttl_expired. Commands wait for the shell of their session without this bound."},
		{name: "SESSION_TTL_SEC", value: span(&c.SessionTTL, time.Second, 1, 31536000), unit: "seconds", def: "3600", doc: "Life of a session after its last use, if it sets none."},
		{name: "HIBERNATE_SEC", value: span(&c.Hibernate, time.Second, 0, 31536000), unit: "seconds", def: "0", doc: "Time after which a session in which nothing runs and nothing happens hibernates: it is saved (docs/hibernation.md), and its sandbox is removed until the next request needs it. 0 is never."},
		{name: "MAX_SESSION_TTL_SEC", value: span(&c.MaxSessionTTL, time.Second, 1, 31536000), unit: "seconds", def: "86400", doc: "Most that a session can set for it."},
		{name: "SESSION_LIFETIME_SEC", value: span(&c.SessionLifetime, time.Second, 1, 31536000), unit: "seconds", def: "86400", doc: "Total life of a session, used or not, if it sets none."},
		{name: "MAX_SESSION_LIFETIME_SEC", value: span(&c.MaxSessionLifetime, time.Second, 1, 31536000), unit: "seconds", def: "604800", doc: "Most that a session can set for it."},
		{name: "SESSION_CONCURRENT_RUNS", value: integer(&c.SessionConcurrentRuns, 1, 4096), unit: "runs", def: "16", doc: "Concurrent runs in one session; a session may set fewer. More wait in the session's own queue. They do not count for SANDBOX_MAX_CONCURRENT_RUNS, because the session's sandbox bounds them."},
		{name: "LEASE_SEC", value: span(&c.Lease, time.Second, 60, 31536000), unit: "seconds", def: "900", doc: "How long sandboxes live without a server: the longest restart that sessions and runs survive, and the time after which a server that does not return has left nothing."},
		{name: "END_SESSIONS", value: boolean(&c.EndSessions), def: "false", doc: "End all sessions when the server is stopped. Otherwise they continue, with everything that runs in them, until the next server reattaches."},
		{name: "DRAIN_SEC", value: span(&c.Drain, time.Second, 0, 86400), unit: "seconds", def: "30", doc: "Time for runs in progress to end when the server is stopped. The rest is then canceled; a second signal cancels at once."},
		{name: "MAX_SESSIONS", value: integer(&c.MaxSessions, 1, 1000000), unit: "sessions", def: "1000", doc: "Live sessions on this node."},
		{name: "QUOTA_SESSIONS", value: integer(&c.QuotaSessions, 0, 1000000), unit: "sessions", def: "100", doc: "Live sessions of one user; 0 is no limit."},
		{name: "REAP_EVERY_SEC", value: span(&c.ReapEvery, time.Second, 1, 300), unit: "seconds", def: "30", doc: "Time between two checks of the live sessions, which end those that have expired and those whose agent has died."},
		{name: "POOL_SIZE", value: integer(&c.PoolSize, 0, 1000), unit: "sandboxes", def: "4", doc: "Sandboxes of each kind that are made in advance; a burst beyond them starts cold. Each takes at most 4 MiB until it is used, and is used once. 0 is no pool."},
		{name: "POOL_MAX", value: integer(&c.PoolMax, 0, 10000), unit: "sandboxes", def: "16", doc: "Such sandboxes of all kinds together; the kinds requested last have priority. 0 is no pool."},
		{name: "POOL_IDLE_SEC", value: span(&c.PoolIdle, time.Second, 1, 31536000), unit: "seconds", def: "600", doc: "How long a kind is kept ready after the last request for it. The kind of requests that set nothing special is always kept."},
		{name: "WARM", value: oneOf(&c.Warm, "auto", "off"), def: "auto", doc: "Whether Python and Node programs may get an interpreter that was started in advance (docs/warm.md). A run can set off for itself."},
		{name: "WARM_PRELOAD", value: list(&c.WarmPreload, checkPreload), def: "[]", doc: "Modules that Python imports while it waits, by the image of the sandbox: IMAGE=MODULE+MODULE, such as host=json+pandas. Modules that an image does not have are left out. Only what programs often import is worth its memory."},
		{name: "QUOTA_CONCURRENT_RUNS", value: integer(&c.QuotaConcurrentRuns, 0, 100000), unit: "runs", def: "0", doc: "Concurrent runs of a user without a quota of their own, those in sessions and chats of the workspace API included; 0 is no limit."},
		{name: "QUOTA_MEMORY_MB", value: integer(&c.QuotaMemoryMB, 0, 1<<30), unit: "MiB", def: "0", doc: "Memory that the sandboxes of one user may use together, files in memory and queued runs included, for a user without a quota of their own; 0 is no limit."},
		{name: "QUOTA_CPU", value: number(&c.QuotaCPU, 0, 1e6), unit: "cores", def: "0", doc: "Processors that the sandboxes of one user may use together, queued runs included, for a user without a quota of their own; 0 is no limit."},
		{name: "QUOTA_CPU_SECONDS_PER_DAY", value: number(&c.QuotaCPUSeconds, 0, 1e9), unit: "seconds", def: "0", doc: "CPU time of one user a day (UTC), in runs and sessions, for a user without a quota of their own; 0 is no limit. At the limit, runs and terminals are refused, and those in progress continue. If a sandbox dies and its counters with it, as on docker, the time since the last reading counts as use of all its processors."},
		{name: "QUOTA_EGRESS_MB_PER_DAY", value: integer(&c.QuotaEgressMB, 0, 1<<30), unit: "MiB", def: "0", doc: "What the runs and sessions of one user may send and receive over the network a day (UTC), for a user without a quota of their own; 0 is no limit. At the limit, requests with a network, a repository or packages are refused."},
		{name: "MAX_ARTIFACT_BYTES_PER_USER_MB", value: integer(&c.MaxArtifactUserMB, 0, 16<<20), unit: "MiB", def: "128", hash: true, doc: "Artifacts, snapshots and volumes on disk that one user keeps, for a user without a quota of their own; 0 is no limit. More artifacts are left out, with a warning; a snapshot or volume that does not fit is refused."},
		{name: "QUOTA_LOG_MB", value: integer(&c.QuotaLogMB, 0, 16<<20), unit: "MiB", def: "4096", doc: "Logs of one user, all runs together, for a user without a quota of their own; 0 is no limit. At the limit, further output of runs in progress is not kept. New runs are refused while the logs and the records of their runs reach it, until they are deleted after `SANDBOX_ARTIFACT_TTL_HOURS`."},
		{name: "RATE_LIMIT_PER_MIN", value: integer(&c.RateLimitPerMin, 0, 10000000), unit: "requests a minute", def: "12000", doc: "Requests of one user; 0 is no limit. Does not apply to operators."},
		{name: "RATE_LIMIT_PER_ADDRESS", value: integer(&c.RateLimitPerAddress, 0, 10000000), unit: "requests a minute", def: "24000", doc: "Requests from one address, a /64 for IPv6; 0 is no limit. Does not apply to this machine itself."},
		{name: "WS_CONNECTS_PER_MIN", value: integer(&c.WSConnectsPerMin, 0, 10000000), unit: "connections a minute", def: "600", doc: "New WebSockets of one user; 0 is no limit. Does not apply to operators."},
	}
}

func streams(c *Config) []row {
	return []row{
		{name: "WS_SIGNED_URLS", value: boolean(&c.WSSignedURLs), def: "false", doc: "Add a token to log_stream_url, so that a client without headers can read it."},
		{name: "WS_SIGNED_URL_TTL_SEC", value: span(&c.WSSignedURLTTL, time.Second, 1, 86400), unit: "seconds", def: "60", doc: "Life of such a token."},
		{name: "WS_SIGNING_SECRET", value: text(&c.WSSigningSecret, checkLongSecret), secret: true, doc: "Key of such tokens, at least 32 bytes. If unset, the first start makes one and keeps it in the data folder."},
		{name: "PORT_CONNECTIONS", value: integer(&c.PortConnections, 1, 1024), unit: "connections", def: "128", doc: "Open connections with programs in one session, of tunnels and previews together."},
		{name: "SESSION_TOKEN_SECRET", value: text(&c.SessionTokenSecret, checkLongSecret), secret: true, alias: "SESSION_TOKEN_SECRET", doc: "Key of the tokens with which browsers reattach to a terminal, at least 32 bytes; SESSION_TOKEN_SECRET without a prefix works, too. If unset, it is derived from SANDBOX_WS_SIGNING_SECRET."},
		{name: "TERMINAL_TOKEN_TTL_SEC", value: span(&c.TerminalTokenTTL, time.Second, 900, 3600), unit: "seconds", def: "1800", doc: "Life of such a token. An open connection receives new ones in time."},
		{name: "TERMINAL_REATTACH_SEC", value: span(&c.TerminalReattach, time.Second, 1, 31536000), unit: "seconds", def: "900", doc: "Life of a terminal without an attached client."},
		{name: "TERMINAL_IDLE_SEC", value: span(&c.TerminalIdle, time.Second, 0, 31536000), unit: "seconds", def: "3600", doc: "Time without input and output after which a terminal ends; 0 is no limit."},
		{name: "TERMINAL_LIFETIME_SEC", value: span(&c.TerminalLifetime, time.Second, 0, 31536000), unit: "seconds", def: "86400", doc: "Total life of a terminal, used or not; 0 is no limit."},
		{name: "TERMINALS_PER_SESSION", value: integer(&c.TerminalsPerSession, 0, 1000), unit: "terminals", def: "8", doc: "Terminals of one session; 0 is no limit."},
		{name: "CONTEXTS_PER_SESSION", value: integer(&c.ContextsPerSession, 1, 15), unit: "contexts", def: "8", doc: "Contexts, living interpreters, of one session."},
		{name: "CONTEXT_IDLE_SEC", value: span(&c.ContextIdle, time.Second, 0, 31536000), unit: "seconds", def: "3600", doc: "Time without code and background processes after which a context's interpreter ends; the next code starts a new one, without the variables. 0 is no limit."},
		{name: "TERMINALS_PER_USER", value: integer(&c.TerminalsPerUser, 0, 100000), unit: "terminals", def: "32", doc: "Terminals of one user, in all sessions; 0 is no limit. As many whose programs have ended are kept for clients that reattach, at most 8 of a session."},
		{name: "TERMINAL_HISTORY_BYTES", value: integer(&c.TerminalHistory, 1024, 512<<10), unit: "bytes", def: "262144", doc: "Output of a terminal that a client receives when it reattaches."},
		{name: "TERMINAL_INPUT_BPS", value: integer(&c.TerminalInputBPS, 1024, 1<<30), unit: "bytes a second", def: "1048576", doc: "Input of one attached client. Faster input is slowed down."},
		{name: "TERMINAL_OUTPUT_BPS", value: integer(&c.TerminalOutputBPS, 1024, 1<<30), unit: "bytes a second", def: "8388608", doc: "Output of a terminal. A faster program is slowed down."},
		{name: "WS_POLL_TIMEOUT_SEC", value: span(&c.WSPollTimeout, time.Second, 0.001, 86400), unit: "seconds", def: "30", doc: "Accepted for older configurations, without effect: streams wait for events and do not poll."},
		{name: "WS_SYNTHETIC_FRAMES_FOR_TESTS", value: never(&c.WSSynthetic), def: "false", doc: "Only false is accepted: a stream contains only what happened."},
	}
}

func memory(c *Config) []row {
	return []row{
		{name: "STORE_BACKEND", value: oneOf(&c.Store, "memory", "sqlite"), def: "sqlite", doc: "Where runs, sessions and keys are stored. memory loses them when the server stops, and is refused in the data folder of a SQLite store."},
		{name: "STORE_DB_PATH", value: text(&c.StoreDBPath), doc: "The SQLite file. Default: in the data folder."},
		{name: "IDEMPOTENCY_TTL_SEC", value: span(&c.IdempotencyTTL, time.Second, 1, 31536000), unit: "seconds", def: "600", doc: "How long an Idempotency-Key returns the first request's answer."},
		{name: "ARTIFACT_TTL_HOURS", value: integer(&c.ArtifactTTLHours, 1, 87600), unit: "hours", def: "24", hash: true, doc: "How long artifacts and the log are kept after a run's end."},
		{name: "SNAPSHOT_TTL_HOURS", value: integer(&c.SnapshotTTLHours, 0, 876000), unit: "hours", def: "720", doc: "How long a snapshot is kept; 0 is no limit."},
		{name: "SNAPSHOT_MAX_MB", value: integer(&c.SnapshotMaxMB, 1, 1<<20), unit: "MiB", def: "1024", doc: "Size of the files of one snapshot, holes in them included. What it holds compressed counts to its owner's artifact_mb."},
		{name: "SNAPSHOT_MAX_FILES", value: integer(&c.SnapshotMaxFiles, 1, 100_000), def: "100000", doc: "Files and folders of one snapshot."},
		{name: "SNAPSHOT_MAX_PER_USER", value: integer(&c.SnapshotsPerUser, 0, 1<<30), def: "1000", doc: "Snapshots that one user may have; 0 is no limit."},
		{name: "SNAPSHOT_KEEP_MB", value: integer(&c.SnapshotKeepMB, 1, 1<<30), unit: "MiB", def: "4096", doc: "Size of all snapshots that are kept unpacked, for runs to read and sessions to begin with. Above it, those used least recently are removed, unless a sandbox has them. While sandboxes have all of it, new sessions begin with a copy."},
		{name: "DISK_WORKSPACE_MB", value: integer(&c.DiskWorkspaceMB, 0, 1<<23), unit: "MiB", def: "0", doc: "Size of the largest workspace on disk that a request may ask for; 0 allows none. It counts to its owner's artifact_mb. The server must run as root, with e2fsprogs and loop devices."},
		{name: "RUN_RETENTION_DAYS", value: integer(&c.RunRetentionDays, 1, 36500), unit: "days", def: "30", doc: "How long records are kept: of a run or session after its end, of an API key after its end, and of how much a user used on a day. At least SANDBOX_ARTIFACT_TTL_HOURS: less is refused, and the default is raised."},
		{name: "MIN_FREE_MB", value: integer(&c.MinFreeMB, 0, 1<<30), unit: "MiB", def: "512", doc: "Free space on the disk of the data folder, or that of `SANDBOX_STORE_DB_PATH` if it has less, below which new runs, sessions and uploads are refused with 507 for users who keep at least as many bytes of artifacts, logs and records of runs and sessions as the average user who keeps any; below half of it they are refused for all users. Unpacked snapshots and packages, which count to no user, stop at this value, and pulls at one and a half times it, so that they stop no runs; 0 is no watermark."},
		{name: "SECRETS_KEY_ROTATE", value: boolean(&c.SecretsKeyRotate), def: "false", doc: "At each start, make a new key for the secrets on record, encrypt them again with it, and remove the old key. The key is in the file secrets-key of the data folder."},
		{name: "AUDIT_RETENTION_DAYS", value: integer(&c.AuditRetentionDays, 1, 36500), unit: "days", def: "30", doc: "How long the audit trail is kept."},
		{name: "AUDIT_REDACT_PATHS", value: boolean(&c.AuditRedactPaths), def: "false", doc: "Write hashes instead of file names into the audit trail."},
		{name: "LOG_FORMAT", value: oneOf(&c.LogFormat, "json", "text"), def: "json", doc: "Format of the server's log, on standard error."},
		{name: "LOG_LEVEL", value: oneOf(&c.LogLevel, "debug", "info", "warn", "error"), def: "info", doc: "Lowest level that is logged."},
	}
}
