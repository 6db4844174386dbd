// Starts the worker where trusted types restrict the addresses of scripts.

interface Policy {
  createScriptURL(url: string): string;
}
interface TrustedTypes {
  createPolicy(name: string, rules: Policy): Policy;
}

let policy: Policy | undefined;

/** startWorker starts the worker. Only the first address that it gets is allowed. */
export function startWorker(url: string, name: string): Worker {
  policy ??= policyFor(new URL(url, self.location.href).href);
  return new Worker(policy.createScriptURL(new URL(url, self.location.href).href), { type: "module", name });
}

function policyFor(allowed: string): Policy {
  const rules: Policy = {
    createScriptURL(asked) {
      if (asked !== allowed) throw new TypeError(`${asked} is not a script of this page`);
      return asked;
    },
  };
  return (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy("belljar", rules) ?? rules;
}
