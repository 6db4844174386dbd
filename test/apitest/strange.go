package apitest

import "strings"

// StrangeRequests returns requests of the REST API, as method and path below its prefix, with ids and filters that no object has: each
// must be refused, or match nothing.
func StrangeRequests() (all []string) {
	strange := []string{"%00", "%ff", "a%0Ab", "%F0%9F%92%A9", "..%2F..", "%2e%2e", "%27%20OR%201=1--", "%25", "a%2Fb", strings.Repeat("x", 5000), "%E2%80%AE"}
	for _, id := range strange {
		for _, request := range []string{
			"GET /runs/ID", "GET /runs/ID/artifacts", "GET /runs/ID/artifacts/a", "POST /runs/ID/cancel",
			"GET /sessions/ID", "DELETE /sessions/ID", "POST /sessions/ID/files?path=a",
			"GET /admin/runs/ID", "DELETE /admin/tokens/ID", "GET /admin/quotas/ID",
			"GET /runs?q=ID", "GET /runs?session_id=ID", "GET /admin/runs?user_id=ID", "GET /admin/runs?image_digest=ID",
			"GET /admin/idempotency?user_id=ID",
		} {
			all = append(all, strings.Replace(request, "ID", id, 1))
		}
	}
	return all
}

// StrangeStatus reports whether a status is a correct answer to one of the [StrangeRequests].
func StrangeStatus(request string, status int) bool {
	filter := strings.Contains(request, "?") && !strings.HasPrefix(request, "POST") || strings.Contains(request, "/quotas/")
	return status == 400 || status == 404 || filter && status == 200
}
