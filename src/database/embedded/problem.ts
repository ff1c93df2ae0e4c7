/**
 * The reasons why the embedded database cannot be opened, as one typed error. Each message states the
 * problem and the remedy for the operator. The CLI prints it and exits with 2.
 */

export type EngineProblemKind =
  /** Another process holds the data directory; `running` describes it. */
  | 'running'
  | 'wrong-user'
  | 'unusable-path'
  /** A folder of the path is closed to the user that runs the database. */
  | 'closed-folder'
  | 'no-private-user'
  /** The directory was created by another major version of PostgreSQL. */
  | 'other-major'
  /** There was a database in this data directory, and now there is none (database/server/note.ts). */
  | 'missing'
  | 'no-binaries'
  | 'socket-folder'
  | 'start-failed';

/** The process that holds a data directory, as it published itself. */
export type RunningInfo = {
  pid: number;
  /** `command`: a CLI command that runs the engine for its own duration. */
  kind: 'service' | 'command';
  /** The address of the API; null until the service is ready. */
  url: string | null;
  /** The path of the socket on which the service answers the command line; null until it is ready. */
  adminSocket: string | null;
  /** The address of the database; null until it accepts connections. */
  engine: { socketDir: string; port: number } | null;
};

/** Where a service answers; published when it is ready. */
export type ServiceAddresses = { url: string; adminSocket: string };

export class EngineProblem extends Error {
  override readonly name = 'EngineProblem';
  readonly kind: EngineProblemKind;
  readonly running: RunningInfo | null;

  constructor(kind: EngineProblemKind, message: string, running: RunningInfo | null = null) {
    super(message);
    this.kind = kind;
    this.running = running;
  }
}
