/**
 * A project of its own in a service that other test files use at the same time:
 *
 *   const service = await sharedService();
 *   const id = await service.send({ to: 'delivered@simulator.test' });
 *   await service.waitForStatus(id, 'delivered');
 *
 * For tests that see a service through a project's keys, or the command line in a project. It has two
 * workers, hardly any limits, and may reach private networks. Tests that restart it, move its clock, set
 * its limits, or read its logs, counters or tables (but for `countRows`) start their own (service.ts),
 * and so do those that have to be alone with it.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createOrganization, createProject } from '../../src/accounts/projects/project-store.ts';
import { ApiClient, createFullKey, declareVerified } from './api-client.ts';
import { findService, type KeptService } from './kept-service.ts';
import { type CommandEnd, letterhausHere } from './letterhaus.ts';
import { asOwner } from './postgres.ts';

/** As the first start adds one, with which `send` and EMAIL send. */
const FIRST_DOMAIN = 'acme.test';

/** A new project in an organization of its own, with `acme.test` in its test environment. */
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

  /** A second project of the same organization, without any domain. */
  otherProject(): Promise<SharedService> {
    return newProject(this.#kept, this.#own.organizationId);
  }

  /** Verified at once: the test environment needs no DNS look-up. */
  async addTestDomain(name: string): Promise<void> {
    const added = await this.request('POST', '/v1/domains', { body: { name } });
    assert.equal(added.status, 201, added.text);
    const verified = await this.request('POST', `/v1/domains/${added.body.id}/verify`);
    assert.equal(verified.body.status, 'verified', verified.text);
  }

  /** A domain of the live environment that is declared verified. */
  async addLiveDomain(name: string): Promise<void> {
    const key = await this.liveKey();
    const added = await this.request('POST', '/v1/domains', { key, body: { name } });
    assert.equal(added.status, 201, added.text);
    await asOwner(this.#kept.address, (db) => declareVerified(db, added.body.id));
  }

  /** How many rows of a table belong to this project. */
  async countRows(table: string): Promise<number> {
    const sql = `select count(*)::int as count from ${table} where project_id = $1`;
    const [row] = await asOwner(this.#kept.address, (db) =>
      db.query<{ count: number }>(sql, [this.#own.projectId]),
    );
    return row!.count;
  }

  /** In this project, unless the command has a key or names another. */
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

  /** The log has lines of all test files: those about the email, and the last. */
  protected override logsAbout(emailId: string): string {
    const lines = readFileSync(this.#kept.logFile, 'utf8').split('\n');
    const about = lines.filter((line) => line.includes(emailId));
    return [...about, 'The last lines of the shared service:', ...lines.slice(-20)].join('\n');
  }
}
