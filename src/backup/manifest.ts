/** The header of a backup, and the counts after each table. */
import { z } from 'zod';
import { BackupDamaged, parseJson } from './format.ts';
import { SCHEMA_KNOWN } from '../migration/schema-version.ts';

/** Names become part of statements, so the catalog must list them, too (backup/store/restore-target.ts). */
const identifier = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/);

const headerSchema = z.object({
  version: z.string(),
  schema: z.int().positive(),
  postgres: z.string(),
  system: z.string().nullable(),
  takenAt: z.iso.datetime(),
  /** Ids of the secret keys that open the rows. The first key seals. */
  keyIds: z.array(z.string()).min(1),
  /** Secret keys, sealed by age, in base64, or null when they are not in this backup. */
  sealedKey: z.base64().nullable(),
  sealedFor: z.enum(['passphrase', 'recipients']).nullable(),
  open: z.int().nonnegative(),
  tables: z
    .array(
      z.object({
        name: identifier,
        columns: z.array(z.object({ name: identifier, type: z.string() })).min(1),
      }),
    )
    .min(1),
  weeks: z.record(identifier, z.array(z.int())),
});

export type BackupHeader = z.infer<typeof headerSchema>;

const endSchema = z.object({
  table: identifier,
  rows: z.int().nonnegative(),
  bytes: z.int().nonnegative(),
  sha256: z.hex(),
});

export type TableEnd = z.infer<typeof endSchema>;

/** @throws BackupDamaged, also when a newer version made the backup */
export function parseHeader(payload: Buffer): BackupHeader {
  const value = parseJson(payload);
  const { schema, version } = value as { schema?: unknown; version?: unknown };
  if (typeof schema === 'number' && schema > SCHEMA_KNOWN) {
    throw new BackupDamaged(
      `This backup was made by a newer version of Letterhaus (${String(version)}, schema ${schema}), and this one knows schema ${SCHEMA_KNOWN}. Restore it with the newer version.`,
    );
  }
  return validate(headerSchema, value);
}

export function parseEnd(payload: Buffer): TableEnd {
  return validate(endSchema, parseJson(payload));
}

function validate<Value>(schema: z.ZodType<Value>, value: unknown): Value {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new BackupDamaged(
    `The backup is damaged: ${issue?.path.join('.') || 'a record'} is not readable.`,
  );
}
