/** Chooses the period of the overview and the one that it is compared with. Both are kept in the address. */
import { Popover } from '@base-ui/react/popover';
import { useNavigate } from '@tanstack/react-router';
import { Calendar, Check, ChevronDown } from 'lucide-react';
import { type FormEvent, type ReactNode, useState } from 'react';
import { Button, buttonLook } from '../../../ui/button.tsx';
import { INPUT, textOf } from '../../../ui/field.tsx';
import { MENU_ITEM, MENU_POPUP } from '../../../ui/more-menu.tsx';
import {
  comparisonsOf,
  isoDate,
  isPeriodName,
  labelOfComparison,
  type Period,
  PERIOD_NAMES,
} from './periods.ts';

/** The query of the address. */
type Chosen = { range?: string; with?: string };

function useChoose(): (chosen: Chosen) => void {
  const navigate = useNavigate();
  return (chosen) =>
    void navigate({
      to: '.',
      params: true,
      search: (all: object) => ({ ...all, ...chosen }),
      replace: true,
    });
}

export function PeriodMenu({ period, nowMs }: { period: Period; nowMs: number }): ReactNode {
  const choose = useChoose();
  const [isOpen, setOpen] = useState(false);
  const pick = (range: string): void => {
    setOpen(false);
    choose({ range });
  };
  const applyDates = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const dates = [textOf(form, 'first'), textOf(form, 'last')].toSorted();
    if (dates.every((date) => date !== '')) pick(dates.join('..'));
  };
  const [first, last] = [period.parts[0]!.startMs, period.parts.at(-1)!.endMs - 1];
  return (
    <ChoiceMenu
      isOpen={isOpen}
      onOpen={setOpen}
      label="Period"
      trigger={
        <>
          <Calendar size={15} aria-hidden className="text-muted" />
          {period.label}
        </>
      }
    >
      {Object.entries(PERIOD_NAMES).map(([key, label]) => (
        <Item key={key} isChosen={key === period.key} onChoose={() => pick(key)}>
          {label}
        </Item>
      ))}
      <form className="mt-1 grid gap-2 border-t border-line p-2" onSubmit={applyDates}>
        <DateField label="First day" name="first" ms={first} maxMs={nowMs} />
        <DateField label="Last day" name="last" ms={Math.min(last, nowMs)} maxMs={nowMs} />
        <Button type="submit" look={isPeriodName(period.key) ? 'plain' : 'primary'}>
          Show these days
        </Button>
      </form>
    </ChoiceMenu>
  );
}

export function ComparisonMenu(props: {
  period: Period;
  comparison: string | undefined;
  nowMs: number;
}): ReactNode {
  const { period, comparison = 'before', nowMs } = props;
  const choose = useChoose();
  const [isOpen, setOpen] = useState(false);
  const pick = (chosen: string): void => {
    setOpen(false);
    choose({ with: chosen });
  };
  const options = comparisonsOf(period);
  const isDate = !options.some(([key]) => key === comparison);
  const applyDate = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const date = textOf(new FormData(event.currentTarget), 'begins');
    if (date !== '') pick(date);
  };
  return (
    <ChoiceMenu
      isOpen={isOpen}
      onOpen={setOpen}
      label="Compare with"
      trigger={
        <>
          <span className="font-normal text-muted">Compare</span>
          {labelOfComparison(period, comparison)}
        </>
      }
    >
      {options.map(([key, label]) => (
        <Item key={key} isChosen={key === comparison} onChoose={() => pick(key)}>
          {label}
        </Item>
      ))}
      <form className="mt-1 grid gap-2 border-t border-line p-2" onSubmit={applyDate}>
        <DateField
          label={period.days === 1 ? 'Another day' : `Another ${period.days} days from`}
          name="begins"
          ms={isDate ? Date.parse(`${comparison}T00:00:00`) : null}
          maxMs={nowMs}
        />
        <Button type="submit" look={isDate ? 'primary' : 'plain'}>
          Compare
        </Button>
      </form>
    </ChoiceMenu>
  );
}

function ChoiceMenu(props: {
  isOpen: boolean;
  onOpen: (isOpen: boolean) => void;
  label: string;
  trigger: ReactNode;
  children: ReactNode;
}): ReactNode {
  return (
    <Popover.Root open={props.isOpen} onOpenChange={(isOpen) => props.onOpen(isOpen)}>
      <Popover.Trigger className={`${buttonLook()} data-popup-open:bg-hover`}>
        <span className="sr-only">{props.label}:</span>
        {props.trigger}
        <ChevronDown size={14} aria-hidden className="text-muted" />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Positioner className="z-60" align="end" sideOffset={4}>
          <Popover.Popup aria-label={props.label} className={`${MENU_POPUP} w-60`}>
            {props.children}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Item(props: { isChosen: boolean; onChoose: () => void; children: ReactNode }): ReactNode {
  return (
    <button
      type="button"
      aria-pressed={props.isChosen}
      onClick={props.onChoose}
      className={`${MENU_ITEM} hover:bg-hover focus-visible:bg-hover`}
    >
      <span className="grow">{props.children}</span>
      {props.isChosen && <Check size={15} aria-hidden className="shrink-0 text-accent" />}
    </button>
  );
}

function DateField(props: {
  label: string;
  name: string;
  ms: number | null;
  maxMs: number;
}): ReactNode {
  return (
    <label className="grid gap-1 text-xs text-muted">
      {props.label}
      <input
        type="date"
        name={props.name}
        required
        defaultValue={props.ms === null ? '' : isoDate(props.ms)}
        max={isoDate(props.maxMs)}
        className={INPUT}
      />
    </label>
  );
}
