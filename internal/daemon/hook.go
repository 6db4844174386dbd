package daemon

import (
	"log/slog"

	"github.com/belljar/belljar/internal/config"
	"github.com/belljar/belljar/internal/event"
	"github.com/belljar/belljar/internal/event/hook"
	"github.com/belljar/belljar/internal/service"
)

// hookKey is the file with the key that signs requests to the webhook.
const hookKey = "webhook-key"

// openHook opens the webhook of approvals.
func openHook(cfg *config.Config, data *dataDir, net service.EgressOptions, events event.Sink, log *slog.Logger) (*hook.Hook, error) {
	text := cfg.ApprovalWebhookKey
	if text == "" {
		var err error
		if text, _, err = data.secret(hookKey, hook.NewKey); err != nil {
			return nil, err
		}
	}
	key, err := hook.ParseKey(text)
	if err != nil {
		return nil, damagedSecret(data.in(hookKey), "the webhook's receiver needs it", err)
	}
	roots, err := net.Roots()
	if err != nil {
		return nil, err
	}
	return hook.Open(hook.Options{URL: cfg.ApprovalWebhook, Key: key, Roots: roots, Events: events, Logger: log})
}
