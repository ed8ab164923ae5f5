// What is wrong with the bars of a report, in the words of whoever looks at it. The page is drawn by a real browser.
(() => {
  // Init containers have images of their own: a pod may pull and start in turn.
  const faults = [], order = [...'qsptwr'], rank = kind => 'qsppwr'.indexOf(kind === 't' ? 'p' : kind);
  const colours = Object.fromEntries([...document.querySelectorAll('.legend rect')]
      .map(rect => [rect.getAttribute('class'), getComputedStyle(rect).fill]));
  if (document.querySelector('.timeline') && new Set(Object.values(colours)).size !== 6) faults.push('two phases have one colour');
  let below = 0;
  for (const row of document.querySelectorAll('.timeline tbody tr')) {
      const name = row.querySelector('th').textContent, box = row.getBoundingClientRect();
      if (box.top < below - 0.5) faults.push(name + ' overlaps the row above');
      below = box.bottom;
      const cells = [...row.children].map(cell => cell.getBoundingClientRect());
      cells.slice(1).forEach((cell, at) => { if (cell.left < cells[at].right - 0.5) faults.push(name + ': cells overlap'); });
      const bars = [...row.querySelectorAll('rect')], numbers = [...row.querySelectorAll('td:not(.bar)')].slice(0, 6);
      let right = -1, last = -1, next = 0;
      for (const bar of bars) {
          const kind = bar.getAttribute('class'), place = bar.getBoundingClientRect();
          if (getComputedStyle(bar).fill !== colours[kind]) faults.push(name + ': wrong colour of ' + kind);
          if (place.width <= 0 || place.height <= 0) faults.push(name + ': no bar for ' + kind);
          if (place.left < right - 0.5) faults.push(name + ': bars overlap');
          if (rank(kind) < last) faults.push(name + ': wrong order');
          [right, last] = [place.right, rank(kind)];
      }
      const said = numbers.map((cell, at) => cell.textContent ? order[at] : '').join('');
      const kinds = new Set(bars.map(bar => bar.getAttribute('class')));
      const drawn = order.filter(kind => kinds.has(kind)).join('');
      if (said !== drawn) faults.push(name + ': says ' + said + ', draws ' + drawn);
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push('the page is wider than the screen');
  return faults;
})()
