/**
 * How large the embedded server is made: by the connections that the service needs and the memory of
 * the machine, which the workers share with it. Pure.
 */

export type Sizing = {
  /** At the most, of the service. */
  connections: number;
  workers: number;
  /** Of the machine, or of the container if that has less. */
  memoryBytes: number;
};

const MB = 1024 ** 2;
/** For commands, backups, a person with psql, and three that PostgreSQL keeps for superusers. */
const CONNECTIONS_BESIDE = 33;
const CONNECTIONS_MIN = 100;

/** The settings that depend on it, as lines of postgresql.conf. */
export function sizedSettings({ connections, workers, memoryBytes }: Sizing): string {
  const memoryMb = Math.floor(memoryBytes / MB);
  const between = (least: number, value: number, most: number) =>
    Math.floor(Math.min(most, Math.max(least, value)));
  return [
    `max_connections = ${Math.max(CONNECTIONS_MIN, connections + CONNECTIONS_BESIDE)}`,
    `shared_buffers = ${between(64, memoryMb / 16, 1_024)}MB`,
    `effective_cache_size = ${between(256, memoryMb / 2, 65_536)}MB`,
    `max_wal_size = ${between(1_024, workers * 256, 4_096)}MB`,
  ].join('\n');
}

/** cgroups say 0, or a number beyond all memory, when there is no limit. */
export function memoryOf(totalBytes: number, constrainedBytes: number): number {
  return constrainedBytes > 0 ? Math.min(totalBytes, constrainedBytes) : totalBytes;
}
