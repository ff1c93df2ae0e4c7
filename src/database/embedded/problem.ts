/**
 * The reasons why the embedded database cannot be opened, as one typed error. Each message states the problem and the
 * remedy for the operator. The CLI prints it and exits with 2.
 */

export type EngineProblemKind =
  | 'running'
  | 'wrong-user'
  | 'unusable-path'
  | 'closed-folder'
  | 'no-private-user'
  | 'other-major'
  /** This data directory had a database and has none now (database/server/database-note.ts). */
  | 'missing'
  | 'no-binaries'
  | 'no-space'
  | 'socket-folder'
  | 'start-failed';

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
