package rest

// portWords are the descriptions of the properties of ports, as [words].
func portWords() map[string]string {
	return map[string]string{
		"Port.port": "Its number", "Port.address": "The address that the program listens on: 127.0.0.1, 0.0.0.0, ::1 or ::",
		"Port.program": "The name that the program gives itself; absent if it cannot be seen", "Port.pid": "Its process in the sandbox",
		"PreviewSpec.port": "The port that browsers reach", "PreviewSpec.public": "Whether it needs no token; if the server allows that",
		"PreviewSpec.ttl_sec": "Its life, at most 604800; 3600 if it is not given",
		"Preview.label":       "The first part of its host name", "Preview.port": "The port that browsers reach", "Preview.public": "Whether it needs no token",
		"Preview.token": "The token of a private preview; only in the answer that creates it", "Preview.url": "Its address",
		"Preview.token_url": "Its address with the token, to be opened first; only in the answer that creates it",
	}
}
