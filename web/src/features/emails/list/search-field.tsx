/**
 * The search field: its filters as chips, and the words that are typed. Completions open below:
 * arrow keys move, Enter or Tab accepts, Escape closes. Backspace before the words takes the last filter back to text.
 */
import { useQuery } from '@tanstack/react-query';
import { Search, X } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, type RefObject, useState } from 'react';
import { useApi } from '../../../api/scope.ts';
import { filterInWords } from './email-search.ts';
import { type Completion, complete, type Known } from './search-completion.ts';

const NOTHING: Known = { domain: [], tag: [], template: [], key: [], provider: [] };
const STALE_MS = 300_000;

export function SearchField(props: {
  field: RefObject<HTMLInputElement | null>;
  text: string;
  onText: (text: string) => void;
  filters: readonly string[];
  onFilters: (filters: readonly string[], text: string) => void;
  /** The number of matches. */
  count: string | null;
}): ReactNode {
  const { field, text, onText, filters, onFilters, count } = props;
  const completions = useCompletions({ field, text, onText });
  const { choices, marked } = completions;
  const onKeyDown = (event: KeyboardEvent): void => {
    const isAtStart = field.current?.selectionStart === 0 && field.current.selectionEnd === 0;
    const last = filters.at(-1);
    if (event.key !== 'Backspace' || !isAtStart || last === undefined) {
      completions.onKeyDown(event);
      return;
    }
    event.preventDefault();
    onFilters(filters.slice(0, -1), `${last} ${text}`.trim());
  };
  return (
    <div className="relative min-w-0 grow">
      <div className="flex min-h-control flex-wrap items-center gap-1.5 rounded-md border border-control bg-surface px-2.5 py-1 text-sm focus-within:outline-2 focus-within:outline-offset-2 focus-within:outline-accent">
        <Search size={14} aria-hidden className="shrink-0 text-muted" />
        <FilterChips
          filters={filters}
          onFilters={(left) => {
            onFilters(left, text);
            field.current?.focus();
          }}
        />
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
          placeholder={filters.length === 0 ? 'Search address, subject, tag or id…' : ''}
          value={text}
          onChange={(event) => completions.type(event.target.value)}
          onFocus={() => completions.setOpen(true)}
          onBlur={() => completions.setOpen(false)}
          onKeyDown={onKeyDown}
          className="min-w-24 flex-1 bg-transparent outline-none placeholder:text-muted"
        />
        <Count count={count} />
      </div>
      <Completions
        choices={choices}
        marked={marked}
        onMark={completions.setMarked}
        onTake={completions.take}
      />
    </div>
  );
}

/** The completions of the typed words, and the keys that choose one. */
function useCompletions(props: {
  field: RefObject<HTMLInputElement | null>;
  text: string;
  onText: (text: string) => void;
}) {
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
  return { choices, marked, setMarked, setOpen, type, take, onKeyDown };
}

/** The number of matches for screen readers, which announce its changes. The statuses below show it. */
function Count({ count }: { count: string | null }): ReactNode {
  return (
    <span role="status" className="sr-only">
      {count !== null && `${count} emails`}
    </span>
  );
}

function FilterChips(props: {
  filters: readonly string[];
  onFilters: (left: readonly string[]) => void;
}): ReactNode {
  const { filters, onFilters } = props;
  return filters.map((filter, index) => (
    <FilterChip
      key={filter}
      filter={filter}
      onRemove={() => onFilters(filters.toSpliced(index, 1))}
    />
  ));
}

function FilterChip({ filter, onRemove }: { filter: string; onRemove: () => void }): ReactNode {
  const { name, value } = filterInWords(filter);
  return (
    <span className="inline-flex max-w-full items-center gap-1 rounded-[5px] bg-accent-tint pl-1.5 text-xs font-medium text-accent">
      <span className="min-w-0 truncate first-letter:uppercase">
        {name}: {value}
      </span>
      <button
        type="button"
        aria-label={`Remove the filter ${name}: ${value}`}
        onClick={onRemove}
        className="grid size-6 shrink-0 place-items-center rounded hover:bg-hover"
      >
        <X size={12} aria-hidden />
      </button>
    </span>
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
      className={`absolute inset-x-0 top-full z-20 mt-1 rounded-lg border border-line bg-raised p-1 shadow-lg ${choices.length > 0 ? '' : 'hidden'}`}
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

/** Whether it is a value itself, and does not stand for all others. */
const isWhole = (value: string): boolean => value !== '*' && !value.endsWith(':*');

/** The newest 100 domains, and the tags, templates, keys and providers of the last 30 days. */
function useKnown(isWanted: boolean): Known {
  const api = useApi();
  const { data = NOTHING } = useQuery({
    queryKey: [...api.key, 'known'],
    queryFn: async ({ signal }): Promise<Known> => {
      const valuesOf = async (by: 'tag' | 'template' | 'key' | 'provider'): Promise<string[]> => {
        const { totals } = await api.call('getStats', {
          query: { granularity: 'day', by },
          signal,
        });
        return totals.flatMap(({ name, value }) => name ?? value ?? []).filter(isWhole);
      };
      const [domains, tag, template, key, provider] = await Promise.all([
        api.call('listDomains', { query: { limit: 100 }, signal }),
        valuesOf('tag'),
        valuesOf('template'),
        valuesOf('key'),
        valuesOf('provider'),
      ]);
      return { domain: domains.data.map(({ name }) => name), tag, template, key, provider };
    },
    enabled: isWanted,
    staleTime: STALE_MS,
  });
  return data;
}
