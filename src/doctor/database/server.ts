/** Checks the database server: whether it is reachable, of a supported version, fast, and keeps what it commits. */
import { FROZEN_AGE } from '../../core/thresholds.ts';
import { connectionNeeds } from '../../database/server/capacity.ts';
import { SINGLE_WORKER } from '../../database/database.ts';
import { type OpenDatabase, withDatabase } from '../check-context.ts';
import { readServerSettings } from '../doctor-store.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

/** The last day with updates of each major version of PostgreSQL (postgresql.org/support/versioning). */
const LAST_DAYS: Readonly<Record<number, string>> = {
  15: '2027-11-11',
  16: '2028-11-09',
  17: '2029-11-08',
  18: '2030-11-14',
};

export const DATABASE: Check = {
  id: 'database',
  title: 'Database',
  async run({ database, world }) {
    if (database.kind === 'absent') return [unknown(database.reason)];
    if (database.kind === 'unreachable') {
      return [
        red(database.reason, {
          meaning: 'No mail is accepted or sent without the database.',
          remedy: 'Start the database, and check DATABASE_URL (docs/database.md).',
        }),
      ];
    }
    const { version, versionNumber, isReadOnly } = await readServerSettings(database.db);
    const major = Math.floor(versionNumber / 10_000);
    const lastDay = LAST_DAYS[major];
    const findings = [judgeSchema(database)];
    if (isReadOnly) {
      findings.push(
        red('The server is a standby, which accepts no writes.', {
          meaning: 'No mail is accepted.',
          remedy: 'Name the primary in DATABASE_URL, or several servers (docs/database.md).',
        }),
      );
    }
    if (lastDay !== undefined && Date.parse(lastDay) < world.now()) {
      findings.push(
        yellow(`PostgreSQL ${version} has had no updates since ${lastDay}.`, {
          meaning: 'Newly found faults in it are no longer fixed.',
          remedy: 'Move to a newer version (docs/moving-database.md).',
        }),
      );
    } else findings.push(green(`The server runs PostgreSQL ${version}.`));
    return findings;
  },
};

function judgeSchema({ schema, schemaKnown }: OpenDatabase): Finding {
  if (schema === schemaKnown) return green(`The schema is at ${schema}, as this version needs it.`);
  if (schema === 0) return unknown('The database is empty: the first start creates its schema.');
  if (schema > schemaKnown) {
    return yellow(`The database has schema ${schema}, and this version knows ${schemaKnown}.`, {
      meaning: 'A newer version has migrated it, so some checks do not apply.',
      remedy: 'Use the version that runs the service.',
    });
  }
  return yellow(`The database has schema ${schema}, and this version needs ${schemaKnown}.`, {
    meaning: 'The next start migrates it.',
    remedy: 'Read what that would do (docs/upgrading.md).',
    command: 'letterhaus upgrade-check',
  });
}

export const DATABASE_DURABILITY: Check = {
  id: 'database_durability',
  title: 'Database keeps what it commits',
  run: (context) =>
    withDatabase(context, async ({ db }) => {
      const { fsync, fullPageWrites, dataChecksums, autovacuum } = await readServerSettings(db);
      const findings: Finding[] = [];
      const off = Object.entries({ fsync, full_page_writes: fullPageWrites })
        .filter(([, setting]) => setting !== 'on')
        .map(([name]) => name);
      for (const name of off) {
        findings.push(
          red(`${name} is off.`, {
            meaning: 'A power failure or a crash of the machine loses accepted mail.',
            remedy: `Set ${name} = on in postgresql.conf, and reload the server.`,
            command: `psql -c "alter system set ${name} = on" -c "select pg_reload_conf()"`,
          }),
        );
      }
      if (dataChecksums !== 'on') {
        findings.push(
          yellow('Data checksums are off.', {
            meaning: 'The server does not notice when the disk returns damaged data.',
            remedy: 'Turn them on while the server is stopped: pg_checksums --enable.',
          }),
        );
      }
      if (autovacuum !== 'on') {
        findings.push(
          red('autovacuum is off.', {
            meaning: 'The queue becomes slower every day, and in the end the server stops.',
            remedy: 'Set autovacuum = on in postgresql.conf, and reload the server.',
            command: 'psql -c "alter system set autovacuum = on" -c "select pg_reload_conf()"',
          }),
        );
      }
      if (findings.length > 0) return findings;
      return [green('fsync, full_page_writes, data checksums and autovacuum are on.')];
    }),
};

export const DATABASE_CONNECTIONS: Check = {
  id: 'database_connections',
  title: 'Connections to the database',
  run: (context) =>
    withDatabase(context, async ({ db }) => {
      const server = await readServerSettings(db);
      const { workers } = context.machine;
      const needs = connectionNeeds({ ...SINGLE_WORKER, workers });
      const limits = [server.roleLimit, server.databaseLimit].filter((limit) => limit >= 0);
      const open = server.connectionsMax - server.connectionsReserved - server.connectionsOfOthers;
      const available = Math.max(0, Math.min(open, ...limits));
      const found = `${available} connections are left for this installation, and this node with ${workers} workers opens up to ${needs.connectionsMax}.`;
      if (available >= needs.connectionsMax) return [green(found)];
      const problem = {
        remedy: `Raise max_connections (now ${server.connectionsMax}) or the limits of role and database, or start with fewer --workers.`,
        command: 'psql -c "show max_connections"',
      };
      if (available < needs.connectionsMin) {
        return [red(found, { ...problem, meaning: 'The next start fails.' })];
      }
      const meaning = 'Under load, requests and deliveries wait for connections.';
      return [yellow(found, { ...problem, meaning })];
    }),
};

export const DATABASE_WRAPAROUND: Check = {
  id: 'database_wraparound',
  title: 'Transaction numbers',
  run: (context) =>
    withDatabase(context, async ({ db }) => {
      const { frozenXidAge } = await readServerSettings(db);
      const millions = Math.round(frozenXidAge / 1_000_000);
      const found = `The oldest transaction number is ${millions} million behind.`;
      if (frozenXidAge < FROZEN_AGE.soon) return [green(found)];
      const report = frozenXidAge < FROZEN_AGE.urgent ? yellow : red;
      return [
        report(found, {
          meaning: 'At 2,000 million the server accepts no more writes.',
          remedy:
            'Find out what stops autovacuum (an old transaction, a replication slot), then vacuum.',
          command: 'vacuumdb --all --freeze',
        }),
      ];
    }),
};

const ROUND_TRIPS = 20;
const SLOW_ROUND_TRIP_MS = 5;

export const DATABASE_SPEED: Check = {
  id: 'database_speed',
  title: 'Time of a short statement',
  run: (context) =>
    withDatabase(context, async ({ db }) => {
      const times: number[] = [];
      for (let count = 0; count < ROUND_TRIPS; count++) {
        const startedMs = context.world.monotonicMs();
        await db.query('select 1');
        times.push(context.world.monotonicMs() - startedMs);
      }
      // Other checks use the same connection, so the lower quartile is the round trip alone.
      const ms = times.toSorted((a, b) => a - b)[ROUND_TRIPS / 4] ?? 0;
      const found = `A short statement takes ${ms.toFixed(1)} ms.`;
      if (ms <= SLOW_ROUND_TRIP_MS) return [green(found)];
      return [
        yellow(found, {
          meaning: 'Every request waits for several statements.',
          remedy: 'Put the database nearer to this machine, or look for load on it.',
        }),
      ];
    }),
};
