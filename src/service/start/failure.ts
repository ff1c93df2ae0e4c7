/**
 * The reason why the service cannot start, or had to end: a sentence for the operator, a code for programs, and the
 * exit code.
 */
import { DatabaseUnavailable } from '../../database/database.ts';
import { EngineProblem } from '../../database/embedded/problem.ts';
import { isServerUnsuitable } from '../../database/server/connect.ts';
import { RefusedDatabase } from '../../database/server/refused-database.ts';
import { SecretKeyProblem } from '../../secrets/secret-key-file.ts';
import { errorText } from '../machine/log.ts';
import { WorkersCannotRun } from '../pool/worker-pool.ts';

/** Exit code 2: the configuration has to be changed. */
export type ServiceFailure = { failed: string; code: string; exitCode: 1 | 2 };

/** A mistake in the configuration that ends the start with exit code 2. */
export class ConfigurationProblem extends Error {}

const CHECK_DATABASE =
  '. Check that it is running and that DATABASE_URL is right, then start again.';

export function explainFailure(error: unknown): ServiceFailure & { trace: string } {
  const message = error instanceof Error ? error.message : String(error);
  const isForOperator =
    error instanceof ConfigurationProblem ||
    error instanceof EngineProblem ||
    error instanceof SecretKeyProblem;
  const isOfDatabase = error instanceof RefusedDatabase || isServerUnsuitable(error);
  if (isForOperator || isOfDatabase) {
    return { failed: message, code: 'usage_error', exitCode: 2, trace: '' };
  }
  // The trace is for bugs, not for an unavailable database.
  if (error instanceof DatabaseUnavailable) {
    const failed = message + CHECK_DATABASE;
    return { failed, code: 'service_unavailable', exitCode: 1, trace: '' };
  }
  const isReported = error instanceof WorkersCannotRun || !(error instanceof Error);
  const trace = isReported ? '' : `${errorText(error)}\n`;
  return { failed: message, code: 'internal_error', exitCode: 1, trace };
}
