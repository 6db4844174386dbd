// Package wsclient holds a WebSocket client that shares no code with belljar, written in Python, and tests the streaming
// door with it: over the real service, on the fake runtime.
package wsclient
