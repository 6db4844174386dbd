package config

import "time"

// row is a key and where its value goes.
type row struct {
	name   string // without Prefix
	value  value
	unit   string
	def    string // as somebody would write it; "" leaves the field's zero
	doc    string
	group  string
	secret bool
	hash   bool
	alias  string // another program's name for it in the environment, without any prefix
}

func (r row) key() Key {
	return Key{
		Name: Prefix + r.name, Group: r.group, Type: r.value.kind, Unit: r.unit, Range: r.value.bound, Default: r.def,
		Doc: r.doc, Secret: r.secret, Hash: r.hash,
	}
}

// table is every key, writing into c.
func table(c *Config) []row {
	var all []row
	for _, g := range []struct {
		name string
		rows []row
	}{
		{"Server", server(c)}, {"Who may come in", identity(c)}, {"What runs", execution(c)}, {"The docker runtime", docker(c)}, {"The gvisor runtime", gvisor(c)}, {"Images", images(c)}, {"Limits of a run", limits(c)},
		{"Interactive input", interactive(c)}, {"Memory of the node", node(c)}, {"Sessions, queue and quotas", capacity(c)}, {"Threads", threads(c)}, {"Models", models(c)}, {"Streams", streams(c)},
		{"What is remembered", memory(c)},
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
			doc: "Folder of this installation: records, logs, artifacts, secrets. Unset, it is /var/lib/belljar for root, else belljar below $XDG_DATA_HOME or ~/.local/share."},
		{name: "TLS_CERT", value: text(&c.TLSCert), doc: "PEM file with the certificate chain to serve HTTPS with. Needs SANDBOX_TLS_KEY."},
		{name: "TLS_KEY", value: text(&c.TLSKey), doc: "PEM file with the private key of SANDBOX_TLS_CERT."},
		{name: "PUBLIC_URL", value: text(&c.PublicURL, checkURL),
			doc: "Address under which clients reach the server, for the URLs in answers, if it is not the one in their requests: https://host[/path]."},
		{name: "TRUSTED_PROXIES", value: networks(&c.TrustedProxies), def: "[]",
			doc: "Networks of the reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are believed."},
		{name: "ALLOWED_ORIGINS", value: list(&c.AllowedOrigins, checkOrigin), def: "[]",
			doc: "Web pages that may call from a browser: scheme://host[:port], or * for all (without credentials)."},
		{name: "METRICS_OPEN", value: boolean(&c.MetricsOpen), def: "false", doc: "Serve /metrics to everybody, without authentication."},
	}
}

func identity(c *Config) []row {
	return []row{
		{name: "API_KEY", value: text(&c.APIKey, checkSecret), secret: true,
			doc: "The operator's API key. Unset, one is made at the first start and kept in the data folder. More keys, for users, come from `belljar token create`."},
		{name: "JWT_SECRET", value: text(&c.JWTSecret, checkLongSecret), secret: true,
			doc: "Key of JWTs signed with HS256, at least 32 bytes. Unset, such tokens are refused."},
		{name: "OIDC_ISSUER", value: text(&c.OIDCIssuer, checkIssuer),
			doc: "Issuer of an OpenID provider whose JWTs (RS256, ES256) are accepted. Its keys are found by discovery. Needs SANDBOX_OIDC_AUDIENCE."},
		{name: "OIDC_AUDIENCE", value: text(&c.OIDCAudience), doc: "Audience that JWTs of SANDBOX_OIDC_ISSUER must be meant for."},
	}
}

func execution(c *Config) []row {
	return []row{
		{name: "ENABLE_EXECUTION", value: boolean(&c.EnableExecution), def: "true", hash: true,
			doc: "Run things. Off, the server answers questions about what it has, and refuses new runs."},
		{name: "BACKGROUND_EXECUTION", value: boolean(&c.BackgroundExecution), def: "true", hash: true,
			doc: "Answer POST /runs before the run has ended. Off, every such request waits."},
		{name: "DEFAULT_RUNTIME", value: oneOf(&c.DefaultRuntime, "native", "docker", "gvisor", "firecracker"), def: "native", hash: true,
			doc: "Runtime of requests that name none. The server does not start if this host cannot do it; it never takes another one instead."},
		{name: "RUNTIMES", value: list(&c.Runtimes, checkRuntime), def: "native,gvisor,docker",
			doc: "Runtimes that requests may name, and that are chosen from for those that name a class of isolation or a trust level. One that this host cannot do is listed with the reason, and refused."},
		{name: "DEFAULT_TRUST_LEVEL", value: oneOf(&c.DefaultTrustLevel, "", "trusted", "standard", "untrusted"), def: "",
			doc: "Trust level of requests that say none, and the most that users who are no operators can claim: nothing of theirs runs in a weaker isolation than it may have. Unset, such requests get the default runtime. Enters the policy hash when set."},
		{name: "TRUST_LEVELS", value: list(&c.TrustLevels, checkTrust), def: "trusted=namespace,standard=namespace,untrusted=user_space_kernel",
			doc: "The weakest isolation of each trust level: namespace, user_space_kernel or microvm. Levels that are left out keep theirs. Enters the policy hash where it is not the default."},
		{name: "DEFAULT_IMAGE", value: text(&c.DefaultImage, checkImage), def: "host",
			doc: "Image of a session that is opened, or made over S4's door, and names none."},
		{name: "NETWORK_DEFAULT", value: text(&c.NetworkDefault, checkNetwork), def: "deny_all", hash: true,
			doc: "Network of sandboxes. Only deny_all can be had: allowlist is not built yet, and is refused."},
		{name: "ALLOW_WEAK", value: list(&c.AllowWeak, checkWord), def: "[]",
			doc: "Protections that may be missing on this host (`belljar doctor` names them). Without this the server does not start where one is missing. With it, requests run on the defaults; one that asks for a limit which is missing here is refused, unless an operator sends it with allow_weak. Enters the policy hash when not empty."},
		{name: "SUPPORTED_SPEC_VERSIONS", value: list(&c.SupportedSpecVersions, checkSpec), def: "1.0,1.1", hash: true,
			doc: "Values of spec_version that requests may have: 1.0, 1.1."},
	}
}

func limits(c *Config) []row {
	const ifChanged = " Enters the policy hash when it is not the default."
	const unlessSet = " Requests may ask for less; for more only while this is unset, and then up to "
	return []row{
		{name: "DEFAULT_CPU", value: number(&c.DefaultCPU, 0.01, 1024), unit: "cores", def: "1", doc: "Processor time of a run that asks for nothing." + ifChanged},
		{name: "DEFAULT_MEM_MB", value: integer(&c.DefaultMemMB, 8, 16<<20), unit: "MiB", def: "512", doc: "Memory of a run that asks for nothing." + ifChanged},
		{name: "MAX_CPU", value: number(&c.MaxCPU, 0.01, 1024), unit: "cores", def: "4", hash: true, doc: "The most processor time that a run can ask for."},
		{name: "MAX_MEM_MB", value: integer(&c.MaxMemMB, 8, 16<<20), unit: "MiB", def: "8192", hash: true, doc: "The most memory that a run can ask for."},
		{name: "PIDS_LIMIT", value: integer(&c.PidsLimit, 1, 1<<22), unit: "processes", def: "256", hash: true,
			doc: "Processes and threads of a sandbox." + unlessSet + "4096."},
		{name: "ULIMIT_NOFILE", value: integer(&c.UlimitNoFile, 16, 1<<20), unit: "descriptors", def: "1024", hash: true,
			doc: "Open files of a process." + unlessSet + "65536."},
		{name: "ULIMIT_NPROC", value: integer(&c.UlimitNProc, 1, 1<<22), unit: "processes", def: "256", hash: true,
			doc: "RLIMIT_NPROC. While it is unset, it is what PIDS_LIMIT says." + unlessSet + "4096."},
		{name: "WORKSPACE_CAP_MB", value: integer(&c.WorkspaceCapMB, 1, 16<<20), unit: "MiB", def: "256", hash: true,
			doc: "Size of /workspace. It is in memory." + unlessSet + "4096."},
		{name: "TMP_MB", value: integer(&c.TmpMB, 1, 16<<20), unit: "MiB", def: "64", doc: "Size of /tmp. It is in memory." + ifChanged},
		{name: "MAX_LOG_BYTES", value: integer(&c.MaxLogBytes, 1, 1<<40), unit: "bytes", def: "10485760", hash: true,
			doc: "Output of a run that is kept; what comes after is counted and dropped." + unlessSet + "104857600."},
		{name: "MAX_ARTIFACT_BYTES_PER_RUN_MB", value: integer(&c.MaxArtifactRunMB, 1, 16<<20), unit: "MiB", def: "32", hash: true,
			doc: "Captured artifacts of a run, together." + unlessSet + "1024."},
		{name: "MAX_UPLOAD_MB", value: integer(&c.MaxUploadMB, 1, 16<<20), unit: "MiB", def: "64", hash: true, doc: "Size of one upload, packed and unpacked."},
		{name: "MAX_UPLOAD_FILES", value: integer(&c.MaxUploadFiles, 1, 1<<20), unit: "files", def: "1000", doc: "Files of one upload." + ifChanged},
		{name: "MAX_UPLOAD_DEPTH", value: integer(&c.MaxUploadDepth, 1, 256), unit: "folders", def: "10", doc: "Folders above a file of an upload." + ifChanged},
		{name: "DEFAULT_STARTUP_TIMEOUT_SEC", value: span(&c.StartupTimeout, time.Second, 0.001, 86400), unit: "seconds", def: "20", hash: true,
			doc: "Time for making a sandbox, if a request does not say."},
		{name: "MAX_STARTUP_TIMEOUT_SEC", value: span(&c.MaxStartupTimeout, time.Second, 0.001, 86400), unit: "seconds", def: "600",
			doc: "The most that a request can say there."},
		{name: "DEFAULT_EXEC_TIMEOUT_SEC", value: span(&c.ExecTimeout, time.Second, 0.001, 31536000), unit: "seconds", def: "60", hash: true,
			doc: "Time for a command, if a request does not say."},
		{name: "MAX_EXEC_TIMEOUT_SEC", value: span(&c.MaxExecTimeout, time.Second, 0.001, 31536000), unit: "seconds", def: "86400",
			doc: "The most that a request can say there."},
		{name: "DEFAULT_BUILD_TIMEOUT_SEC", value: span(&c.BuildTimeout, time.Second, 0.001, 31536000), unit: "seconds", def: "60",
			doc: "Time for a compiler before a command, if a request does not say; the most that it can say is as there."},
		{name: "DEFAULT_CPU_TIME_SEC", value: span(&c.CPUTime, time.Second, 0, 31536000), unit: "seconds", def: "0",
			doc: "Processor time of a command and all its processes, if a request does not say; 0 is no limit. It is not for commands of a shell, nor for terminals." + ifChanged},
		{name: "MAX_CPU_TIME_SEC", value: span(&c.MaxCPUTime, time.Second, 0.01, 31536000), unit: "seconds", def: "86400",
			doc: "The most that a request can say there."},
		{name: "CANCEL_GRACE_SECONDS", value: span(&c.CancelGrace, time.Second, 0.001, 600), unit: "seconds", def: "5", hash: true,
			doc: "Time between TERM and KILL when a run is cancelled or too slow."},
	}
}

func interactive(c *Config) []row {
	return []row{
		{name: "INTERACTIVE_MAX_FRAME_BYTES", value: integer(&c.InteractiveFrame, 1, 64<<10), unit: "bytes", def: "65536",
			doc: "Input in one frame, if a run does not say (stdin_max_frame_bytes)."},
		{name: "INTERACTIVE_MAX_BYTES", value: integer(&c.InteractiveBytes, 1, 1<<40), unit: "bytes", def: "1048576",
			doc: "Input of a run, if it does not say (stdin_max_bytes)."},
		{name: "INTERACTIVE_INPUT_BPS", value: integer(&c.InteractiveBPS, 1, 1<<40), unit: "bytes a second", def: "1048576",
			doc: "Input of a run, if it does not say (stdin_bps)."},
		{name: "INTERACTIVE_IDLE_TIMEOUT_SEC", value: span(&c.InteractiveIdleTime, time.Second, 0.001, 86400), unit: "seconds", def: "30",
			doc: "Time without input after which it is closed, if a run does not say (stdin_idle_timeout_sec)."},
	}
}

func capacity(c *Config) []row {
	return []row{
		{name: "MAX_CONCURRENT_RUNS", value: integer(&c.MaxConcurrentRuns, 1, 100000), unit: "runs", def: "8", doc: "Runs at once on this node. The others wait in the queue."},
		{name: "QUEUE_MAX_LENGTH", value: integer(&c.QueueMaxLength, 0, 1000000), unit: "runs", def: "100", doc: "Runs that may wait. One more is refused with 429 and Retry-After."},
		{name: "QUEUE_TTL_SEC", value: span(&c.QueueTTL, time.Second, 0.001, 86400), unit: "seconds", def: "120", doc: "Time that a run may wait; then it fails with queue_ttl_expired."},
		{name: "SESSION_TTL_SEC", value: span(&c.SessionTTL, time.Second, 1, 31536000), unit: "seconds", def: "3600", doc: "Life of a session after its last use, if it does not say."},
		{name: "MAX_SESSION_TTL_SEC", value: span(&c.MaxSessionTTL, time.Second, 1, 31536000), unit: "seconds", def: "86400", doc: "The most that a session can say there."},
		{name: "SESSION_LIFETIME_SEC", value: span(&c.SessionLifetime, time.Second, 1, 31536000), unit: "seconds", def: "86400", doc: "Life of a session in all, used or not, if it does not say."},
		{name: "MAX_SESSION_LIFETIME_SEC", value: span(&c.MaxSessionLifetime, time.Second, 1, 31536000), unit: "seconds", def: "604800", doc: "The most that a session can say there."},
		{name: "SESSION_CONCURRENT_RUNS", value: integer(&c.SessionConcurrentRuns, 1, 4096), unit: "runs", def: "16", doc: "Runs at once in one session; a session may ask for fewer. The others wait in the session's own queue. They do not count for SANDBOX_MAX_CONCURRENT_RUNS: the session's sandbox bounds them."},
		{name: "LEASE_SEC", value: span(&c.Lease, time.Second, 60, 31536000), unit: "seconds", def: "900", doc: "Time that sandboxes live on without a server: the longest that a restart may take for sessions and runs to go on, and the time after which nothing is left of a server that does not come back."},
		{name: "END_SESSIONS", value: boolean(&c.EndSessions), def: "false", doc: "End all sessions when the server is stopped. Otherwise they live on, with what runs in them, for the next one."},
		{name: "DRAIN_SEC", value: span(&c.Drain, time.Second, 0, 86400), unit: "seconds", def: "30", doc: "Time that runs under way have to end when the server is stopped. What is left then is cancelled; a second signal does so at once."},
		{name: "MAX_SESSIONS", value: integer(&c.MaxSessions, 1, 1000000), unit: "sessions", def: "1000", doc: "Living sessions on this node."},
		{name: "QUOTA_SESSIONS", value: integer(&c.QuotaSessions, 0, 1000000), unit: "sessions", def: "100", doc: "Living sessions of one user; 0 is no limit."},
		{name: "REAP_EVERY_SEC", value: span(&c.ReapEvery, time.Second, 1, 300), unit: "seconds", def: "30", doc: "Time between two looks after the living sessions: those whose time is over are ended, and those whose agent has died."},
		{name: "POOL_SIZE", value: integer(&c.PoolSize, 0, 1000), unit: "sandboxes", def: "4", doc: "Sandboxes of each kind that are made before somebody asks for one; a burst beyond them starts cold. Each takes at most 4 MiB until it is used, and is used once. 0 is no pool."},
		{name: "POOL_MAX", value: integer(&c.PoolMax, 0, 10000), unit: "sandboxes", def: "16", doc: "Such sandboxes in all. The kinds that were asked for last have them; 0 is no pool."},
		{name: "POOL_IDLE_SEC", value: span(&c.PoolIdle, time.Second, 1, 31536000), unit: "seconds", def: "600", doc: "Time that a kind is kept ready after it was asked for. That of requests which ask for nothing special is kept for ever."},
		{name: "QUOTA_CONCURRENT_RUNS", value: integer(&c.QuotaConcurrentRuns, 0, 100000), unit: "runs", def: "0", doc: "Runs at once of one user who has no quota of his own; 0 is no limit."},
		{name: "QUOTA_MEMORY_MB", value: integer(&c.QuotaMemoryMB, 0, 1<<30), unit: "MiB", def: "0", doc: "Memory that the sandboxes of one user may use together, their files in memory included, runs in the queue too, if the user has no quota of their own; 0 is no limit."},
		{name: "QUOTA_CPU", value: number(&c.QuotaCPU, 0, 1e6), unit: "cores", def: "0", doc: "Processors that the sandboxes of one user may use together, runs in the queue too, if the user has no quota of their own; 0 is no limit."},
		{name: "QUOTA_CPU_SECONDS_PER_DAY", value: number(&c.QuotaCPUSeconds, 0, 1e9), unit: "seconds", def: "0", doc: "Processor time of one user a day (UTC), if he has no quota of his own; 0 is no limit."},
		{name: "MAX_ARTIFACT_BYTES_PER_USER_MB", value: integer(&c.MaxArtifactUserMB, 0, 16<<20), unit: "MiB", def: "128", hash: true, doc: "Artifacts of one user, all runs together, if he has no quota of his own; 0 is no limit. What is more is left out, with a warning."},
		{name: "QUOTA_LOG_MB", value: integer(&c.QuotaLogMB, 0, 16<<20), unit: "MiB", def: "4096", doc: "Logs of one user, all runs together, if the user has no quota of their own; 0 is no limit. Runs under way print on, but what is more is not kept; new ones are refused until logs are deleted after `SANDBOX_ARTIFACT_TTL_HOURS`."},
		{name: "RATE_LIMIT_PER_MIN", value: integer(&c.RateLimitPerMin, 0, 10000000), unit: "requests a minute", def: "12000", doc: "Requests of one user; 0 is no limit. Operators are not counted."},
		{name: "RATE_LIMIT_PER_ADDRESS", value: integer(&c.RateLimitPerAddress, 0, 10000000), unit: "requests a minute", def: "24000", doc: "Requests from one address, a /64 for IPv6; 0 is no limit. This machine itself is not counted."},
		{name: "WS_CONNECTS_PER_MIN", value: integer(&c.WSConnectsPerMin, 0, 10000000), unit: "connections a minute", def: "600", doc: "WebSockets opened by one user; 0 is no limit. Operators are not counted."},
	}
}

func streams(c *Config) []row {
	return []row{
		{name: "WS_SIGNED_URLS", value: boolean(&c.WSSignedURLs), def: "false", doc: "Make log_stream_url carry a token, so that a client without headers can open it."},
		{name: "WS_SIGNED_URL_TTL_SEC", value: span(&c.WSSignedURLTTL, time.Second, 1, 86400), unit: "seconds", def: "60", doc: "Life of such a token."},
		{name: "WS_SIGNING_SECRET", value: text(&c.WSSigningSecret, checkLongSecret), secret: true, doc: "Key of such tokens, at least 32 bytes. Unset, one is made at the first start and kept in the data folder."},
		{name: "SESSION_TOKEN_SECRET", value: text(&c.SessionTokenSecret, checkLongSecret), secret: true, alias: "SESSION_TOKEN_SECRET", doc: "Key of the tokens by which browsers come back to a terminal, at least 32 bytes; SESSION_TOKEN_SECRET without a prefix is taken, too. Unset, it follows from SANDBOX_WS_SIGNING_SECRET."},
		{name: "TERMINAL_TOKEN_TTL_SEC", value: span(&c.TerminalTokenTTL, time.Second, 900, 3600), unit: "seconds", def: "1800", doc: "Life of such a token. Whoever is connected gets new ones in time."},
		{name: "TERMINAL_REATTACH_SEC", value: span(&c.TerminalReattach, time.Second, 1, 31536000), unit: "seconds", def: "900", doc: "Time that a terminal lives on while nobody watches it."},
		{name: "TERMINAL_IDLE_SEC", value: span(&c.TerminalIdle, time.Second, 0, 31536000), unit: "seconds", def: "3600", doc: "Time that a terminal may neither print nor be typed to; 0 is no limit."},
		{name: "TERMINAL_LIFETIME_SEC", value: span(&c.TerminalLifetime, time.Second, 0, 31536000), unit: "seconds", def: "86400", doc: "Life of a terminal, whoever uses it; 0 is no limit."},
		{name: "TERMINALS_PER_SESSION", value: integer(&c.TerminalsPerSession, 0, 1000), unit: "terminals", def: "8", doc: "Terminals of one session; 0 is no limit."},
		{name: "TERMINALS_PER_USER", value: integer(&c.TerminalsPerUser, 0, 100000), unit: "terminals", def: "32", doc: "Terminals of one user, in all his sessions; 0 is no limit."},
		{name: "TERMINAL_HISTORY_BYTES", value: integer(&c.TerminalHistory, 1024, 512<<10), unit: "bytes", def: "262144", doc: "Output of a terminal that is shown to who comes back."},
		{name: "TERMINAL_INPUT_BPS", value: integer(&c.TerminalInputBPS, 1024, 1<<30), unit: "bytes a second", def: "1048576", doc: "Input of one who is attached to a terminal. One who is faster is slowed down."},
		{name: "TERMINAL_OUTPUT_BPS", value: integer(&c.TerminalOutputBPS, 1024, 1<<30), unit: "bytes a second", def: "8388608", doc: "Output of a terminal. A program that is faster is slowed down."},
		{name: "WS_POLL_TIMEOUT_SEC", value: span(&c.WSPollTimeout, time.Second, 0.001, 86400), unit: "seconds", def: "30", doc: "Accepted for the sake of older set-ups, and without effect: streams wait for events and do not poll."},
		{name: "WS_SYNTHETIC_FRAMES_FOR_TESTS", value: never(&c.WSSynthetic), def: "false", doc: "Only false is accepted: a stream says what happened and nothing else."},
	}
}

func memory(c *Config) []row {
	return []row{
		{name: "STORE_BACKEND", value: oneOf(&c.Store, "memory", "sqlite"), def: "sqlite", doc: "Where runs, sessions and keys are on record. memory forgets them when the server stops."},
		{name: "STORE_DB_PATH", value: text(&c.StoreDBPath), doc: "The SQLite file. Unset, it is in the data folder."},
		{name: "IDEMPOTENCY_TTL_SEC", value: span(&c.IdempotencyTTL, time.Second, 1, 31536000), unit: "seconds", def: "600", doc: "Time that an Idempotency-Key stands for its first request."},
		{name: "ARTIFACT_TTL_HOURS", value: integer(&c.ArtifactTTLHours, 1, 87600), unit: "hours", def: "24", hash: true, doc: "Time after the end of a run that its artifacts and its log are kept."},
		{name: "RUN_RETENTION_DAYS", value: integer(&c.RunRetentionDays, 1, 36500), unit: "days", def: "30", doc: "Time after the end of a run that it can still be asked about."},
		{name: "MIN_FREE_MB", value: integer(&c.MinFreeMB, 0, 1<<30), unit: "MiB", def: "512", doc: "Free space on the disk of the data folder below which new runs, sessions and uploads are refused with 507 for users who keep as many bytes of artifacts and logs as the average user who keeps any, or more; below half of it they are refused for everyone. Images are unpacked no further while there is less than half as much again, so that pulls stop no runs; 0 is no such watermark."},
		{name: "AUDIT_RETENTION_DAYS", value: integer(&c.AuditRetentionDays, 1, 36500), unit: "days", def: "30", doc: "Time that the audit trail is kept."},
		{name: "AUDIT_REDACT_PATHS", value: boolean(&c.AuditRedactPaths), def: "false", doc: "Write hashes in place of file names into the audit trail."},
		{name: "LOG_FORMAT", value: oneOf(&c.LogFormat, "json", "text"), def: "json", doc: "Form of the server's log, on stderr."},
		{name: "LOG_LEVEL", value: oneOf(&c.LogLevel, "debug", "info", "warn", "error"), def: "info", doc: "The least of what is logged."},
	}
}
