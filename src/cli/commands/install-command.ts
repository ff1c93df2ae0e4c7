/**
 * `letterhaus install`: makes a clone runnable for a service. The launcher runs it (bin/install-command.js), because it
 * works without any package. This describes it for help and completion.
 */
import type { Command } from 'commander';
import { type Cli, type CommandResult, runnable } from '../command.ts';

const NOTES = `It needs npm, the network and 500 MB of disk for some minutes, and leaves 250 MB. Afterwards another user
can start the service, without npm and from a read-only folder (docs/system-user.md).
In a package of npm, which is complete, it removes 67 MB of header files of Node.`;

export function describeInstall(install: Command, cli: Cli): void {
  runnable(install, cli, { examples: ['install'], notes: NOTES, run });
}

function run(): Promise<CommandResult> {
  const failed = 'Only the launcher can install: run bin/letterhaus install.';
  return Promise.resolve({ failed, code: 'usage_error', exitCode: 2 });
}
