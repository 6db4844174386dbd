/** cpuMs is how long this process computes for something, in milliseconds: a machine that is busy does not make it more. */
export function cpuMs(work: () => void): number {
  const from = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(from);
  return (user + system) / 1000;
}
