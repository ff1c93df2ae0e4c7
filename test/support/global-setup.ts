/**
 * Before and after a whole run: `node --test --test-global-setup=test/support/global-setup.ts ...`.
 * Starts one engine for all test files. Not needed for a single file: postgres.ts then starts one.
 */
import { SHARED_ENGINE, startEngine, type TestEngine } from './engine.ts';

let engine: TestEngine | null = null;

export async function globalSetup(): Promise<void> {
  if (process.env['DATABASE_URL']) return;
  engine = await startEngine();
  process.env[SHARED_ENGINE] = JSON.stringify(engine.address);
}

export async function globalTeardown(): Promise<void> {
  await engine?.stop();
}
