/**
 * A project of its own in a service that other test files use at the same time:
 *
 *   const service = await sharedService();
 *   const id = await service.send({ to: 'delivered@simulator.test' });
 *   await service.waitForStatus(id, 'delivered');
 *
 * For tests that use a service through a project's keys, or through the command line in a project. It has two
 * workers, hardly any limits, and access to private networks. Tests that restart it, move its clock, set its limits,
 * read its logs, counters or tables (except `countRows`), or need to be alone with it start their own (service.ts).
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createOrganization, createProject } from '../../src/accounts/projects/project-store.ts';
import { ApiClient, createFullKey, declareVerified } from './api-client.ts';
import { findService, type KeptService } from './kept-service.ts';
import { type CommandEnd, letterhausHere } from './letterhaus.ts';
import { asOwner } from './postgres.ts';

/** The domain that a first start adds; `send` and EMAIL use it. */
const FIRST_DOMAIN = 'acme.test';

/** Returns a new project in its own organization, with `acme.test` in its test environment. */
export async function sharedService(): Promise<SharedService> {
  const kept = await (present ??= findService());
  const organization = await asOwner(kept.address, (db) => createOrganization(db, 'Acme'));
  const service = await newProject(kept, organization.id);
  await service.addTestDomain(FIRST_DOMAIN);
  return service;
}

let present: Promise<KeptService> | null = null;

type Own = { organizationId: string; projectId: string; testKey: string };

async function newProject(kept: KeptService, organizationId: string): Promise<SharedService> {
  const own = await asOwner(kept.address, async (db) => {
    const { id: projectId } = await createProject(db, organizationId, 'Acme');
    const testKey = await createFullKey(db, { projectId, environment: 'test' });
    return { organizationId, projectId, testKey };
  });
  return new SharedService(kept, own);
}

export class SharedService extends ApiClient {
  readonly url: string;
  readonly testKey: string;
  readonly #kept: KeptService;
  readonly #own: Own;

  constructor(kept: KeptService, own: Own) {
    super();
    this.#kept = kept;
    this.#own = own;
    this.url = kept.url;
    this.testKey = own.testKey;
  }

  /** Returns a second project of the same organization, without a domain. */
  otherProject(): Promise<SharedService> {
    return newProject(this.#kept, this.#own.organizationId);
  }

  /** Adds a domain that is verified at once: the test environment needs no DNS look-up. */
  async addTestDomain(name: string): Promise<void> {
    const added = await this.request('POST', '/v1/domains', { body: { name } });
    assert.equal(added.status, 201, added.text);
    const verified = await this.request('POST', `/v1/domains/${added.body.id}/verify`);
    assert.equal(verified.body.status, 'verified', verified.text);
  }

  /** Adds a domain to the live environment and marks it as verified. */
  async addLiveDomain(name: string): Promise<void> {
    const key = await this.liveKey();
    const added = await this.request('POST', '/v1/domains', { key, body: { name } });
    assert.equal(added.status, 201, added.text);
    await asOwner(this.#kept.address, (db) => declareVerified(db, added.body.id));
  }

  /** Returns the number of rows of this project in a table. */
  async countRows(table: string): Promise<number> {
    const sql = `select count(*)::int as count from ${table} where project_id = $1`;
    const [row] = await asOwner(this.#kept.address, (db) =>
      db.query<{ count: number }>(sql, [this.#own.projectId]),
    );
    return row!.count;
  }

  /** Runs a command in this project, unless it has a key or names another project. */
  override cli(...args: string[]): Promise<CommandEnd> {
    const { projectId } = this.#own;
    const isElsewhere = args.some((arg) => arg === '--key' || arg === '--project');
    return letterhausHere(isElsewhere ? args : [...args, '--project', projectId], this.#kept.env);
  }

  protected override createLiveKey(): Promise<string> {
    const { projectId } = this.#own;
    return asOwner(this.#kept.address, (db) =>
      createFullKey(db, { projectId, environment: 'live' }),
    );
  }

  /** The log has lines of all test files. Returns those about the email, and the last ones. */
  protected override logsAbout(emailId: string): string {
    const lines = readFileSync(this.#kept.logFile, 'utf8').split('\n');
    const about = lines.filter((line) => line.includes(emailId));
    return [...about, 'The last lines of the shared service:', ...lines.slice(-20)].join('\n');
  }
}
