/** Group commit without a database: the commits end when the test lets them, so that items arrive in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GroupCommit } from './group-commit.ts';

type Commit = (items: readonly string[]) => Promise<(string | Promise<string>)[]>;

function newGroup(
  commit: Commit,
  options: { bytes?: number; unknown?: boolean; paceMs?: number } = {},
) {
  const batches: string[][] = [];
  const group = new GroupCommit<string, string>({
    commit: (items) => {
      batches.push([...items]);
      return commit(items);
    },
    sizeBytes: () => options.bytes ?? 1,
    ...(options.paceMs === undefined ? {} : { paceMs: options.paceMs }),
    mayTryOneByOne: () => options.unknown !== true,
    exclusiveKey: (item) => (item.startsWith('key') ? 'key' : null),
  });
  return { batches, group };
}

const echo: Commit = (items) => Promise.resolve(items.map((item) => `${item}!`));

test('items that arrive in one turn of the event loop share a batch, each with its own result', async () => {
  const { batches, group } = newGroup(echo);
  const results = await Promise.all(['a', 'b', 'c'].map((item) => group.add(item)));
  assert.deepEqual(results, ['a!', 'b!', 'c!']);
  assert.deepEqual(batches, [['a', 'b', 'c']]);
});

test('items that arrive while a batch commits form the next batch', async () => {
  const first = Promise.withResolvers<void>();
  const { batches, group } = newGroup(async (items) => {
    if (items.includes('a')) await first.promise;
    return echo(items);
  });
  const a = group.add('a');
  await new Promise(setImmediate);
  const others = ['b', 'c', 'd'].map((item) => group.add(item));
  await new Promise(setImmediate);
  assert.deepEqual(batches, [['a']]);
  first.resolve();
  await Promise.all([a, ...others]);
  assert.deepEqual(batches, [['a'], ['b', 'c', 'd']]);
});

test('small batches are paced; a first or full batch does not wait', async () => {
  const { batches, group } = newGroup(echo, { paceMs: 2_000 });
  await group.add('first');
  const later = [group.add('second')];
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  assert.deepEqual(batches, [['first']]);
  group.rejectQueued(new Error('the end'));
  await assert.rejects(Promise.all(later), /the end/);

  const paced = newGroup(echo, { paceMs: 30 });
  await paced.group.add('first');
  await Promise.all(['second', 'third'].map((item) => paced.group.add(item)));
  assert.deepEqual(paced.batches, [['first'], ['second', 'third']]);

  const many = newGroup(echo, { paceMs: 2_000 });
  await many.group.add('first');
  await Promise.all(Array.from({ length: 64 }, (_, index) => many.group.add(`${index}`)));
  assert.deepEqual(
    many.batches.map(({ length }) => length),
    [1, 64],
  );
});

test('a batch has at most 64 items and 8 MB', async () => {
  const many = newGroup(echo);
  await Promise.all(Array.from({ length: 150 }, (_, index) => many.group.add(`${index}`)));
  assert.deepEqual(
    many.batches.map(({ length }) => length),
    [64, 64, 22],
  );
  const large = newGroup(echo, { bytes: 5 * 1024 * 1024 });
  await Promise.all(['a', 'b'].map((item) => large.group.add(item)));
  assert.deepEqual(large.batches, [['a'], ['b']]);
});

test('equal keys never share a batch', async () => {
  const { batches, group } = newGroup(echo);
  await Promise.all(['key 1', 'a', 'key 2'].map((item) => group.add(item)));
  assert.deepEqual(batches, [['key 1', 'a'], ['key 2']]);
});

test('a failing item fails alone', async () => {
  const { group } = newGroup((items) =>
    items.includes('bad') ? Promise.reject(new Error('poison')) : echo(items),
  );
  const results = await Promise.allSettled(['a', 'bad', 'b'].map((item) => group.add(item)));
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

test('a batch with an unknown outcome is not committed a second time', async () => {
  const { batches, group } = newGroup(() => Promise.reject(new Error('lost')), { unknown: true });
  const results = await Promise.allSettled(['a', 'b'].map((item) => group.add(item)));
  assert.deepEqual(
    results.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.equal(batches.length, 1);
});

test('pending items are counted until they have a result', async () => {
  const { group } = newGroup(echo, { bytes: 10 });
  const adding = [group.add('a'), group.add('b')];
  assert.deepEqual([group.pendingItems, group.pendingBytes], [2, 20]);
  await Promise.all(adding);
  await new Promise(setImmediate);
  assert.deepEqual([group.pendingItems, group.pendingBytes], [0, 0]);
});

test('looking up an unknown outcome does not delay other items', async () => {
  const truth = Promise.withResolvers<string>();
  const { group } = newGroup((items) =>
    Promise.resolve(items.map((item) => (item === 'unsure' ? truth.promise : item))),
  );
  const unsure = group.add('unsure');
  assert.equal(await group.add('next'), 'next');
  truth.resolve('found');
  assert.equal(await unsure, 'found');
});

test('an item that waits for its batch can be refused, and then no longer counts', async () => {
  const first = Promise.withResolvers<void>();
  const { group, batches } = newGroup((items) => first.promise.then(() => [...items]));
  const underWay = group.add('a');
  await new Promise(setImmediate);
  const waiting = [group.add('b'), group.add('c')];
  group.rejectQueued(new Error('away'));
  for (const one of waiting) await assert.rejects(one, /away/);
  assert.deepEqual([group.pendingItems, group.pendingBytes], [1, 1]);
  first.resolve();
  assert.equal(await underWay, 'a');
  assert.equal(await group.add('d'), 'd');
  assert.deepEqual(batches, [['a'], ['d']]);
});

test('a batch with too few results fails as a whole, and is not committed again', async () => {
  const { batches, group } = newGroup((items) => echo(items.slice(1)));
  const results = await Promise.allSettled(['a', 'b', 'c'].map((item) => group.add(item)));
  for (const result of results) {
    assert.ok(result.status === 'rejected');
    assert.match(String(result.reason), /a batch of 3 items was committed with 2 results/);
  }
  assert.deepEqual(batches, [['a', 'b', 'c']]);
  assert.deepEqual([group.pendingItems, group.pendingBytes], [0, 0]);
});
