/** Metrics of the supervisor: its workers, the clock of the machine, the hold after a restore, and backups. */
import type { Metrics } from '../worker/worker-messages.ts';
import { sample } from './installation-samples.ts';

export type PoolState = {
  running: number;
  wanted: number;
  died: number;
  killed: number;
  skewMs: number;
  isOnHold: boolean;
  /** Null: no backups are scheduled, or none has ended. */
  backup: BackupState | null;
  /** Null: nothing is archived for restores to a point in time. */
  pointInTime: ArchivedTimes | null;
};

/** `goodAtMs`: time of the newest good backup; 0: there is none. `everyMs`: the interval of the schedule. */
export type BackupState = { goodAtMs: number; failures: number; everyMs: number };

/** Milliseconds since 1970; 0: never. */
export type ArchivedTimes = { coveredMs: number; baseMs: number };

export function poolMetrics(state: PoolState): Metrics {
  return [
    gauge('workers', 'Worker processes that run.', state.running),
    gauge('workers_wanted', 'Worker processes that should run.', state.wanted),
    counter('workers_died_total', 'Workers that ended unexpectedly.', state.died),
    counter(
      'workers_killed_total',
      'Workers that were killed because they did not answer.',
      state.killed,
    ),
    gauge(
      'clock_skew_seconds',
      'By how much the clock of this machine is ahead of that of its database.',
      Math.round(state.skewMs / 1_000),
    ),
    gauge(
      'on_hold',
      'Whether the installation is on hold after a restore: 1 while nothing is sent.',
      state.isOnHold ? 1 : 0,
    ),
    ...(state.backup === null ? [] : backupMetrics(state.backup)),
    ...(state.pointInTime === null ? [] : pointInTimeMetrics(state.pointInTime)),
  ];
}

function backupMetrics({ goodAtMs, failures, everyMs }: BackupState): Metrics {
  return [
    gauge(
      'backup_last_success_timestamp_seconds',
      'The time of the newest backup that was read back and is good; 0: there is none.',
      Math.round(goodAtMs / 1_000),
    ),
    gauge('backup_interval_seconds', 'The interval of scheduled backups.', everyMs / 1_000),
    counter('backup_failures_total', 'Scheduled backups that failed since the start.', failures),
  ];
}

function pointInTimeMetrics({ coveredMs, baseMs }: ArchivedTimes): Metrics {
  return [
    gauge(
      'point_in_time_covered_timestamp_seconds',
      'The last time to which a restore is possible; 0: none.',
      Math.floor(coveredMs / 1_000),
    ),
    gauge(
      'point_in_time_base_timestamp_seconds',
      'The time of the newest base backup; 0: there is none.',
      Math.floor(baseMs / 1_000),
    ),
  ];
}

function gauge(name: string, help: string, value: number): Metrics[number] {
  return sample('gauge', { name: `letterhaus_${name}`, help }, value);
}

function counter(name: string, help: string, value: number): Metrics[number] {
  return sample('counter', { name: `letterhaus_${name}`, help }, value);
}
