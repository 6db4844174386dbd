/** cpuMs returns the CPU time of a function in milliseconds, which does not depend on the machine's load. */
export function cpuMs(work: () => void): number {
  const from = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1000;
}
