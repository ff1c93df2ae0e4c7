/** The search field with completions: arrow keys move, Enter or Tab accepts, Escape closes. */
import { useQuery } from '@tanstack/react-query';
import { Search } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, type RefObject, useState } from 'react';
import { useApi } from '../../../api/scope.ts';
import { INPUT } from '../../../ui/field.tsx';
import { type Completion, complete, type Known } from './search-completion.ts';

const NOTHING: Known = { domains: [], tags: [] };
const STALE_MS = 300_000;

export function SearchField(props: {
  field: RefObject<HTMLInputElement | null>;
  text: string;
  onText: (text: string) => void;
}): ReactNode {
  const { field, text, onText } = props;
  const [isOpen, setOpen] = useState(false);
  const [marked, setMarked] = useState(-1);
  const known = useKnown(isOpen);
  const choices = isOpen ? complete(text, known, Date.now()) : [];
  const type = (next: string): void => {
    onText(next);
    setMarked(-1);
  };
  const take = (choice: Completion | undefined): void => {
    if (!choice) return;
    type(choice.text);
    field.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const isTaken = (event.key === 'Enter' || event.key === 'Tab') && choices[marked] !== undefined;
    if (isTaken) take(choices[marked]);
    else if (step !== undefined && choices.length > 0) {
      setMarked((marked + step + choices.length) % choices.length);
    } else if (event.key === 'Escape' && choices.length > 0) setOpen(false);
    else {
      if (event.key === 'Escape') field.current?.blur();
      if (event.key !== 'Escape') setOpen(true);
      return;
    }
    event.preventDefault();
  };
  return (
    <div className="relative min-w-0 grow">
      <Search size={14} aria-hidden className="absolute top-2.25 left-2.5 text-muted" />
      <input
        ref={field}
        type="search"
        role="combobox"
        aria-label="Search emails"
        aria-expanded={choices.length > 0}
        aria-controls="search-completions"
        aria-autocomplete="list"
        aria-activedescendant={choices[marked] && `search-completion-${marked}`}
        autoComplete="off"
        placeholder="Address, subject, id, tag:kind:receipt, after:2026-11-21"
        value={text}
        onChange={(event) => type(event.target.value)}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
        className={`${INPUT} pl-8`}
      />
      <Completions choices={choices} marked={marked} onMark={setMarked} onTake={take} />
    </div>
  );
}

function Completions(props: {
  choices: readonly Completion[];
  marked: number;
  onMark: (index: number) => void;
  onTake: (choice: Completion) => void;
}): ReactNode {
  const { choices, marked } = props;
  return (
    <ul
      role="listbox"
      id="search-completions"
      aria-label="Completions"
      className={`absolute inset-x-0 top-9 z-20 rounded-lg border border-line bg-raised p-1 shadow-lg ${choices.length > 0 ? '' : 'hidden'}`}
    >
      {choices.map((choice, index) => (
        <li
          key={choice.token}
          id={`search-completion-${index}`}
          role="option"
          aria-selected={index === marked}
          onMouseMove={() => props.onMark(index)}
          // Before the field loses the focus.
          onMouseDown={(event) => {
            event.preventDefault();
            props.onTake(choice);
          }}
          className="flex justify-between gap-4 rounded-md px-2.5 py-1.5 text-sm aria-selected:bg-hover"
        >
          <span className="font-mono text-xs leading-5 break-all">{choice.token}</span>
          <span className="text-muted">{choice.about}</span>
        </li>
      ))}
    </ul>
  );
}

/** The newest 100 domains, and the tags of the last 30 days. */
function useKnown(isWanted: boolean): Known {
  const api = useApi();
  const { data = NOTHING } = useQuery({
    queryKey: [...api.key, 'known'],
    queryFn: async ({ signal }): Promise<Known> => {
      const [domains, stats] = await Promise.all([
        api.call('listDomains', { query: { limit: 100 }, signal }),
        api.call('getStats', { query: { granularity: 'day', by: 'tag' }, signal }),
      ]);
      return {
        domains: domains.data.map(({ name }) => name),
        tags: stats.totals.flatMap(({ value }) => (value ? [value] : [])),
      };
    },
    enabled: isWanted,
    staleTime: STALE_MS,
  });
  return data;
}
