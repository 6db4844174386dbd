// The rules of SANDBOX_APPROVAL that a request matches, in words.

/** plainReason says in words why a request waits: "network: example.com" is `It wants to reach example.com`. */
export function plainReason(reason: string): string {
  const match = /^([a-z_]+)(?:([>=])([^:]*))?(?:: ([\s\S]*))?$/.exec(reason);
  if (!match) return reason;
  const [, subject, , bound = "", asked = ""] = match;
  const list = asked.trim().split(/\s+/).filter(Boolean).join(", ");
  const over = (what: string, unit: string) => `${what} ${asked}${unit}; more than ${bound}${unit} needs an approval`;
  switch (subject) {
    case "network": return `It wants to reach ${list || "the network"}`;
    case "image": return `It uses the image ${list || bound}`;
    case "secrets": return `It gets the secrets ${list}`;
    case "git": return `It clones ${list}`;
    case "packages": return `It installs ${list}`;
    case "cpu": return over("It wants", " processors");
    case "memory_mb": return over("It wants", " MiB of memory");
    case "timeout_sec": return over("It may run for", " s");
    case "source": return `It was sent by ${bound}`;
    default: return reason;
  }
}
