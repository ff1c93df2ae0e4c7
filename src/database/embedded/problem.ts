/**
 * The reasons why the embedded database cannot be opened, as one typed error. Each message states the problem
 * and the remedy for the operator. The CLI prints it and exits with 2.
 */

export type EngineProblemKind =
  /** Another process has the data directory; `running` describes it. */
  | 'running'
  | 'wrong-user'
  | 'unusable-path'
  /** A folder of the path is closed to the user that runs the database. */
  | 'closed-folder'
  | 'no-private-user'
  /** Another major version of PostgreSQL created the directory. */
  | 'other-major'
  /** This data directory had a database and has none now (database/server/note.ts). */
  | 'missing'
  | 'no-binaries'
  | 'socket-folder'
  | 'start-failed';

/** The process that has a data directory, as it described itself. */
export type RunningInfo = {
  pid: number;
  /** `command`: a CLI command that runs the engine for its own duration. */
  kind: 'service' | 'command';
  /** Address of the API; null until the service is ready. */
  url: string | null;
  /** Path of the socket on which the service answers the command line; null until it is ready. */
  adminSocket: string | null;
  /** Address of the database; null until it accepts connections. */
  engine: { socketDir: string; port: number } | null;
};

/** Addresses of a service, published when it is ready. */
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
