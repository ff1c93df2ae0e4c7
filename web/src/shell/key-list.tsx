/** The shortcuts that the page has now: everywhere, to go to screens, and those of this screen. */
import { type ReactNode, useState } from 'react';
import { activeShortcuts, areSingleKeysOn, type Shortcut, switchSingleKeys } from '../lib/keys.ts';
import { Keys } from '../ui/keys.tsx';

const EVERYWHERE: readonly string[] = ['mod+k', '?', '/'];

const GROUPS: readonly (readonly [title: string, isOf: (keys: string) => boolean])[] = [
  ['Everywhere', (keys) => EVERYWHERE.includes(keys)],
  ['On this screen', (keys) => !EVERYWHERE.includes(keys) && !keys.startsWith('g ')],
  ['Go to', (keys) => keys.startsWith('g ')],
];

export function KeyList(): ReactNode {
  const [isOn, setOn] = useState(areSingleKeysOn);
  const all = activeShortcuts();
  return (
    <div className="space-y-5 px-5 pt-1 pb-5 text-sm">
      {GROUPS.map(([title, isOf]) => (
        <Group key={title} title={title} shortcuts={all.filter(({ keys }) => isOf(keys))} />
      ))}
      <label className="flex items-center gap-2 border-t border-line pt-4">
        <input
          type="checkbox"
          checked={isOn}
          onChange={({ target }) => {
            switchSingleKeys(target.checked);
            setOn(target.checked);
          }}
        />
        Shortcuts of a single key
      </label>
    </div>
  );
}

function Group(props: { title: string; shortcuts: readonly Shortcut[] }): ReactNode {
  const { title, shortcuts } = props;
  if (shortcuts.length === 0) return null;
  // Two keys may do the same.
  const keysOf = Map.groupBy(shortcuts, ({ label }) => label);
  return (
    <section aria-label={title}>
      <h3 className="mb-1 text-xs font-medium text-muted">{title}</h3>
      <dl className="grid grid-cols-1 gap-x-8 sm:grid-cols-2">
        {[...keysOf].map(([label, same]) => (
          <div key={label} className="flex min-h-8 items-center justify-between gap-3">
            <dt className="min-w-0">{label}</dt>
            <dd className="flex shrink-0 gap-2">
              {same.map(({ keys }) => (
                <Keys key={keys} keys={keys} />
              ))}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
