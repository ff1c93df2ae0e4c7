/** `letterhaus receipt-key`: prints the public key that signs the case files of the installation. */
import type { Command } from 'commander';
import type { Api, ApiOptions } from '../../cli/api.ts';
import { apiRunnable } from '../../cli/api.ts';
import type { Cli, CommandResult } from '../../cli/command.ts';
import { facts, shortTime } from '../../cli/table.ts';

export function describeReceiptKey(receiptKey: Command, cli: Cli): void {
  apiRunnable(receiptKey, cli, {
    examples: ['receipt-key', 'receipt-key --json > receipt-key.json'],
    notes: 'Give it to those who verify your case files, with `letterhaus verify-receipt`.',
    environment: 'of_id',
    run: printReceiptKey,
  });
}

async function printReceiptKey(api: Api, _options: ApiOptions): Promise<CommandResult> {
  const key = await api.byId.service.receiptKey();
  const retired = key.retired.map(
    ({ fingerprint, retired_at: at }) =>
      ['retired', `${fingerprint}, until ${shortTime(at)} UTC`] as const,
  );
  const text = facts([
    ['fingerprint', key.fingerprint],
    ['public key', key.public_key],
    ['made', `${shortTime(key.created_at)} UTC`],
    ...retired,
  ]);
  return { data: key, text: `${text}\n\n${key.public_key_pem.trim()}` };
}
