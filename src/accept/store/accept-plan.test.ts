/**
 * PostgreSQL caches the plan of a prepared statement. A plan that it made for a small installation must stay fast when
 * the installation has grown.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainingDatabase } from '../../../test/support/explaining.ts';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { AcceptStore } from './accept-store.ts';
import { APP_ROLE, connectAsOwner } from '../../database/database.ts';

const PROJECTS = 10_000;

for (const [path, scheduledAt] of [
  ['full path', new Date(0)],
  ['fast path', null],
] as const) {
  test(`a plan of the ${path} made for few projects is as fast with 10,000`, async () => {
    await using database = await testDatabase();
    const owner = await connectAsOwner(database.address, 'test');
    // Without autovacuum, which would make a new plan at some time during the test.
    await owner.query('alter table limit_windows set (autovacuum_enabled = off)');
    await owner.query('alter table projects set (autovacuum_enabled = off)');
    const sender = await newSender(database.db);
    await using explaining = await explainingDatabase(database.address, APP_ROLE);
    const store = new AcceptStore(explaining.db.accepting, {
      limit: { max: 1_000, windowS: 60 },
      leaseId: () => null,
      onWebhooksQueued: () => {},
      onUnknown: () => {},
    });
    const pagesOfOne = async () => {
      explaining.readings.length = 0;
      const { rows } = await acceptAll(store, [newEmail(sender, { scheduledAt })]);
      assert.equal(rows[0]?.outcome, 'accepted');
      return explaining.readings[0]!;
    };
    const few = await pagesOfOne();
    await owner.query(
      `with p as (
       insert into projects (id, organization_id, name, created_at)
       select gen_random_uuid(), organization_id, 'p', now()
         from projects, generate_series(1, $2) where id = $1 returning id)
     insert into limit_windows (project_id, environment, category)
     select id, environment, category from p,
            unnest('{live,test}'::text[]) environment,
            unnest('{sending,verification}'::text[]) category`,
      [sender.projectId, PROJECTS],
    );
    await owner.end();
    const many = await pagesOfOne();
    assert.ok(many.rows <= few.rows + 20, `${many.rows} rows instead of ${few.rows}`);
    assert.ok(many.pages <= few.pages + 20, `${many.pages} pages instead of ${few.pages}`);
    await explaining.forgetPlans();
    const anew = await pagesOfOne();
    assert.ok(anew.rows <= few.rows + 20, `${anew.rows} rows instead of ${few.rows}`);
  });
}
