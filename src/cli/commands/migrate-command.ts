/** `letterhaus migrate`: migrates the database to this version's schema, as every start does. */
import { basename } from 'node:path';
import type { Command } from 'commander';
import { type Cli, type CommandResult, runnable } from '../command.ts';
import { withStore } from '../store.ts';

export function describeMigrate(migrate: Command, cli: Cli): void {
  runnable(migrate, cli, { examples: ['migrate'], run });
}

function run(cli: Cli): Promise<CommandResult> {
  return withStore(cli, async ({ migrated: { version, applied } }) => {
    const files = applied.map((file) => basename(file));
    const done = files.length === 0 ? 'nothing had to be done' : `applied ${files.join(', ')}`;
    return { data: { version, applied: files }, text: `The schema is at ${version}: ${done}.` };
  });
}
